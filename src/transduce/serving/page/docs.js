// The API page: renders /openapi.json.

import { button, html } from "/elements.js";

const paths = document.getElementById("paths");
const contents = document.getElementById("contents");

// Follow a reference: {$ref: "#/components/schemas/Segment"}.
function resolved(schema, spec) {
  if (schema.$ref === undefined) return schema;
  return schema.$ref
    .slice(2)
    .split("/")
    .reduce((part, name) => part[name], spec);
}

// An optional field is a choice with null; return the other choices.
function choices(schema, spec) {
  const several = schema.anyOf ?? [schema];
  return several.map((choice) => resolved(choice, spec)).filter(({ type }) => type !== "null");
}

const NAMES = { integer: "whole number", string: "text", boolean: "true or false" };

function typeOf(schema, spec) {
  const named = choices(schema, spec).map(({ type, items }) => {
    if (type === "array") return `list of ${typeOf(items ?? {}, spec)}`;
    return NAMES[type] ?? type ?? "anything";
  });
  return [...new Set(named)].join(" or ");
}

function boundsOf(schema, spec) {
  return choices(schema, spec).flatMap(({ minimum, maximum }) => [
    ...(minimum === undefined ? [] : [`at least ${minimum}`]),
    ...(maximum === undefined ? [] : [`at most ${maximum}`]),
  ]);
}

function defaultOf(schema) {
  const given = schema.default;
  return given === undefined || given === null ? [] : [`default ${JSON.stringify(given)}`];
}

// The object whose fields are shown: the schema itself, or the items of its list.
function inner(schema, spec) {
  for (const choice of choices(schema, spec)) {
    if (choice.properties !== undefined) return choice;
    if (choice.type === "array" && choice.items !== undefined) return inner(choice.items, spec);
  }
  return null;
}

function drawList(items) {
  return html("ul", { class: "fields" }, ...items);
}

function drawField(name, notes, description) {
  const item = html("li", {}, html("code", {}, name), html("span", { class: "type" }, notes));
  if (description !== undefined) item.append(html("span", { class: "meaning" }, description));
  return item;
}

function drawFields(schema, spec, isRequest) {
  return drawList(Object.entries(schema.properties).map(([name, field]) => {
    const notes = [typeOf(field, spec), ...boundsOf(field, spec), ...defaultOf(field)];
    if (isRequest && (schema.required ?? []).includes(name)) notes.push("required");
    const item = drawField(name, notes.join(", "), field.description);
    const below = inner(field, spec);
    if (below !== null) item.append(drawFields(below, spec, isRequest));
    return item;
  }));
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function command(path, method, operation, spec) {
  const url = `${location.origin}${path}`;
  const body = operation.requestBody?.content["application/json"];
  if (body === undefined) {
    const needed = (operation.parameters ?? []).filter(({ required }) => required);
    const query = needed.map(({ name }) => `${name}=…`).join("&");
    return `curl ${query === "" ? url : quoted(`${url}?${query}`)}`;
  }
  const example = JSON.stringify(resolved(body.schema, spec).example ?? {});
  return `curl ${url} -H 'Content-Type: application/json' \\\n  -d ${quoted(example)}`;
}

function drawExample(text) {
  const copy = button("Copy", {}, async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Copy failed"; // the browser forbids copying here
    }
    setTimeout(() => (copy.textContent = "Copy"), 2000);
  });
  return html("div", { class: "example" }, html("pre", {}, html("code", {}, text)), copy);
}

function drawParameters(parameters) {
  return drawList(parameters.map(({ name, required, description }) =>
    drawField(name, required ? "in the query, required" : "in the query", description)));
}

function drawErrors(responses) {
  const errors = Object.entries(responses).filter(([status]) => !status.startsWith("2"));
  return drawList(errors.map(([status, { description }]) =>
    html("li", {}, html("code", {}, status), ` ${description}`)));
}

function drawResponse(response, spec) {
  const [[kind, content] = ["", {}]] = Object.entries(response.content ?? {});
  const below = inner(content.schema ?? {}, spec);
  if (below !== null) return drawFields(below, spec, false);
  return html("p", { class: "quiet" }, `${response.description} ${kind}`);
}

function folded(title, content) {
  return html("details", {}, html("summary", {}, title), content);
}

function drawOperation(path, method, operation, spec) {
  const id = `${method}${path.replaceAll(/[^a-z]+/g, "-")}`;
  const verb = html("span", { class: `method ${method}` }, method.toUpperCase());
  const title = html("h3", {}, verb, html("code", {}, path));
  const part = html("section", { class: "operation", id }, title);
  for (const paragraph of (operation.description ?? operation.summary ?? "").split("\n\n")) {
    part.append(html("p", {}, paragraph));
  }
  part.append(drawExample(command(path, method, operation, spec)));
  const bodies = Object.entries(operation.requestBody?.content ?? {});
  if (bodies.length > 0) {
    const kinds = bodies.map(([kind]) => kind).join(" or ");
    const schema = resolved(bodies[0][1].schema, spec);
    part.append(html("h4", {}, "Request ", html("span", { class: "type" }, kinds)));
    part.append(drawFields(schema, spec, true));
  }
  if ((operation.parameters ?? []).length > 0) {
    part.append(html("h4", {}, "Request"), drawParameters(operation.parameters));
  }
  part.append(folded("Response", drawResponse(operation.responses["200"], spec)));
  const errors = drawErrors(operation.responses);
  if (errors.childElementCount > 0) part.append(folded("Errors", errors));
  contents.append(html("a", { href: `#${id}` }, path));
  return part;
}

function draw(spec) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const name = operation.tags?.[0] ?? "other";
      if (!groups.has(name)) groups.set(name, html("section", {}, html("h2", {}, titled(name))));
      groups.get(name).append(drawOperation(path, method, operation, spec));
    }
  }
  paths.replaceChildren(...groups.values());
}

function titled(name) {
  return name[0].toUpperCase() + name.slice(1);
}

try {
  draw(await (await fetch("/openapi.json")).json());
} catch {
  const problem = "The service does not answer. Is it still running?";
  paths.replaceChildren(html("p", { class: "error" }, problem));
}
