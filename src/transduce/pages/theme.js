// Light or dark theme: the user's choice, or the system's. Runs before the first paint.

const system = matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null; // storage is disabled
  }
}

function show() {
  document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
}

show();
system.addEventListener("change", () => {
  show();
  dispatchEvent(new Event("themechange"));
});

addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  if (button === null) return;
  button.addEventListener("click", () => {
    const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("theme", other);
    } catch {
      // storage is disabled: the choice lasts for this page
    }
    document.documentElement.dataset.theme = other;
    dispatchEvent(new Event("themechange"));
  });
});
