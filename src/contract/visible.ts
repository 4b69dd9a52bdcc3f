/** Stored text with its line breaks, and without anything that a terminal or a page would obey. */
export function visible(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, (character) =>
      character === "\n" || character === "\t" ? character : "\ufffd",
    );
}
