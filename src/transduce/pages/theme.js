// Light or dark theme: the user's choice, or the system's. Runs before the first paint.

const systemTheme = matchMedia("(prefers-color-scheme: dark)");
let themeOfPage = null; // the choice if storage is disabled

// Return "light", "dark", or null to follow the system.
function chosenTheme() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return themeOfPage;
  }
}

function chooseTheme(name) {
  themeOfPage = name;
  try {
    if (name === null) localStorage.removeItem("theme");
    else localStorage.setItem("theme", name);
  } catch {
    // storage is disabled: the choice lasts for this page
  }
  showTheme();
}

function showTheme() {
  document.documentElement.dataset.theme =
    chosenTheme() ?? (systemTheme.matches ? "dark" : "light");
  dispatchEvent(new Event("themechange"));
}

showTheme();
systemTheme.addEventListener("change", showTheme);
addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme")?.addEventListener("click", () => {
    chooseTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  });
});
