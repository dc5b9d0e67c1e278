// Elements of the page and of pictures.

export const SVG = "http://www.w3.org/2000/svg";

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function button(text, attributes, onclick) {
  const made = html("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", onclick);
  return made;
}

// Buttons of which one is pressed; `values` are {value: text}.
export function choice(label, values, onchoose) {
  const made = html("div", { class: "choice", role: "group", "aria-label": label });
  for (const [value, text] of Object.entries(values)) {
    made.append(button(text, { "data-value": value }, () => onchoose(value)));
  }
  return made;
}

export function press(group, value) {
  for (const each of group.children) {
    each.setAttribute("aria-pressed", String(each.dataset.value === value));
  }
}
