// HTML and SVG elements.

export const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function button(text, attributes, onclick) {
  const element = html("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", onclick);
  return element;
}

// A group of buttons, one of them pressed; `values` is {value: text}.
export function choice(label, values, onchoose) {
  const group = html("div", { class: "choice", role: "group", "aria-label": label });
  for (const [value, text] of Object.entries(values)) {
    group.append(button(text, { "data-value": value }, () => onchoose(value)));
  }
  return group;
}

export function press(group, value) {
  for (const element of group.children) {
    element.setAttribute("aria-pressed", String(element.dataset.value === value));
  }
}
