import { isJsonObject, type JsonObject } from "./json-object.ts";

/** Whether JSON text that a parser has accepted has more levels. */
export function isDeeperThan(levels: number, json: Buffer): boolean {
  if (json.length <= 2 * levels) return false;
  let level = 0;
  for (let at = 0; at < json.length; ) {
    const byte = json[at];
    if (byte === QUOTE) {
      at = skipString(json, at);
      continue;
    }
    if (byte === BRACE || byte === BRACKET) level++;
    else if (byte === BRACE_END || byte === BRACKET_END) level--;
    if (level > levels) return true;
    at++;
  }
  return false;
}

/**
 * The text of a member's value, as it is spelled.
 *
 * @param json the text of a JSON object, or of an array of them, that a parser has accepted
 * @returns for each object the place of the value in bytes; `undefined` where the member is missing or a name is
 *   spelled with escapes, so that it would take a parser to compare it
 */
export function memberPlaces(json: Buffer, name: string): (Place | undefined)[] {
  const wanted = Buffer.from(`"${name}"`);
  const places: (Place | undefined)[] = [];
  let at = skipSpace(json, 0);
  if (json[at] !== BRACKET) {
    readObject(json, at, wanted, places);
    return places;
  }
  for (at = skipSpace(json, at + 1); json[at] === BRACE; at = skipSpace(json, at)) {
    at = skipSpace(json, readObject(json, at, wanted, places));
    if (json[at] === COMMA) at++;
  }
  return places;
}

/**
 * Parses an object whose last member has this name, and finds the text of its value by one search, where
 * {@link memberPlaces} looks at every byte.
 *
 * @param json valid UTF-8
 * @returns `undefined` of any other text, be it an object or not
 */
export function parseWithLast(json: Buffer, name: string): { object: JsonObject; place: Place } | undefined {
  const found = json.indexOf(`"${name}":`);
  // After any other byte the quote may be one inside of a longer name.
  if (found < 1 || (json[found - 1] !== COMMA && json[found - 1] !== BRACE)) return undefined;
  const start = skipSpace(json, found + name.length + 3);
  const brace = endOfText(json, json.length) - 1;
  if (json[brace] !== BRACE_END) return undefined;
  const end = endOfText(json, brace);
  try {
    // Each half is valid JSON only if the name stands on the first level and its value ends where the object ends.
    const object: unknown = JSON.parse(`${json.toString("utf8", 0, start)}null}`);
    if (!isJsonObject(object)) return undefined;
    object[name] = JSON.parse(json.toString("utf8", start, end));
    return { object, place: { start, end } };
  } catch {
    return undefined;
  }
}

export interface Place {
  readonly start: number;
  readonly end: number;
}

/** @returns the position after the object */
function readObject(json: Buffer, start: number, wanted: Buffer, places: (Place | undefined)[]): number {
  let place: Place | undefined;
  let isPlain = true;
  let at = skipSpace(json, start + 1);
  while (json[at] === QUOTE) {
    const nameEnd = skipString(json, at);
    const isWanted = json.compare(wanted, 0, wanted.length, at, nameEnd) === 0;
    if (json.subarray(at, nameEnd).includes(BACKSLASH)) isPlain = false;
    const valueStart = skipSpace(json, skipSpace(json, nameEnd) + 1);
    const valueEnd = skipValue(json, valueStart);
    // Of several members with one name, a parser takes the last.
    if (isWanted) place = { start: valueStart, end: valueEnd };
    at = skipSpace(json, valueEnd);
    if (json[at] === COMMA) at = skipSpace(json, at + 1);
  }
  places.push(isPlain ? place : undefined);
  return at + 1;
}

function skipValue(json: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; at < json.length; ) {
    const byte = json[at];
    if (byte === QUOTE) {
      at = skipString(json, at);
      if (depth === 0) return at;
      continue;
    }
    if (byte === BRACE || byte === BRACKET) depth++;
    else if (byte === BRACE_END || byte === BRACKET_END) {
      if (depth === 0) return at; // of the object that a number or a word is in
      depth--;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (byte === COMMA || isSpace(byte))) return at;
    at++;
  }
  return json.length;
}

/** @returns the position after the closing quote */
function skipString(json: Buffer, start: number): number {
  let at = start + 1;
  for (; json[at] !== QUOTE && at < json.length; at++) if (json[at] === BACKSLASH) at++;
  return at + 1;
}

function skipSpace(json: Buffer, start: number): number {
  let at = start;
  while (isSpace(json[at])) at++;
  return at;
}

/** @returns the position after the last byte that is no space */
function endOfText(json: Buffer, end: number): number {
  let at = end;
  while (isSpace(json[at - 1])) at--;
  return at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const BRACKET = 0x5b;
const BRACKET_END = 0x5d;
const BRACE = 0x7b;
const BRACE_END = 0x7d;
