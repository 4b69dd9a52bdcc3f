/**
 * The members of several objects, as they stand between the braces of one. Text is the JSON of an object, and goes
 * into the result as it is spelled.
 */
export function members(...objects: (object | string)[]): string {
  return objects
    .map((object) => (typeof object === "string" ? onOneLine(object) : JSON.stringify(object)))
    .map((json) => json.slice(json.indexOf("{") + 1, json.lastIndexOf("}")))
    .filter((inner) => inner.trim() !== "")
    .join(",");
}

/** Line feeds can only stand between the parts of JSON. */
function onOneLine(json: string): string {
  return json.replaceAll("\n", " ");
}
