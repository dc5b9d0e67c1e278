// Light or dark: as the system says, or as the reader has chosen. It runs before anything is drawn.

const system = matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null; // the reader keeps nothing
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
      // nothing is kept: this page has it all the same
    }
    document.documentElement.dataset.theme = other;
    dispatchEvent(new Event("themechange"));
  });
});
