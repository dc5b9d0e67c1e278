// Saving: a picture as SVG or PNG, or the explorer as an HTML page.

import { html } from "./elements.js";

const SCALE = 3; // pixels of a PNG per CSS pixel

// Save a file.
export function save(blob, name) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // while the browser may still read it
}

// Convert an SVG file to PNG.
export async function pngOf(file, { width, height, scale }) {
  const image = new Image();
  image.src = URL.createObjectURL(file);
  await image.decode();
  const canvas = html("canvas");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function svgFile({ element, words }) {
  for (const word of Object.values(words).flat()) {
    // Only the page needs these.
    for (const { name } of [...word.attributes]) word.removeAttribute(name);
  }
  return new Blob([new XMLSerializer().serializeToString(element)], { type: "image/svg+xml" });
}

export function saveSvg(picture, name) {
  save(svgFile(picture), name);
}

export async function savePng(picture, name) {
  const { width, height } = picture.element.viewBox.baseVal;
  save(await pngOf(svgFile(picture), { width, height, scale: SCALE }), name);
}

// Request the page from `url` with `fetchPage`, and save it.
export async function saveHtml(url, request, name, fetchPage) {
  const response = await fetchPage(url, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
  });
  if (!response.ok) throw new Error((await response.json()).error);
  save(await response.blob(), name);
}
