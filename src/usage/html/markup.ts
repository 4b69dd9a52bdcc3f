import { visible } from "../../contract/visible.ts";

/** A piece of a page: text in which everything that was inserted is escaped. */
export class Markup {
  readonly text: string;

  /** @internal For text of this package that is no template; everything else goes through {@link html}. */
  constructor(text: string) {
    this.text = text;
  }
}

type Insertable = Markup | string | number | undefined | readonly Insertable[];

/**
 * A template for pieces of a page. Strings are shown as they are, whatever they contain, in text and in attributes in
 * double quotes; pieces stay pieces; `undefined` is nothing.
 */
export function html(parts: TemplateStringsArray, ...inserted: readonly Insertable[]): Markup {
  return new Markup(parts.reduce((page, part, index) => page + inserts(inserted[index - 1]) + part));
}

function inserts(inserted: Insertable): string {
  if (inserted === undefined) return "";
  if (inserted instanceof Markup) return inserted.text;
  if (typeof inserted === "object") return inserted.map(inserts).join("");
  return visible(String(inserted)).replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Stored text: its writing direction stays its own. */
export function stored(text: string): Markup {
  return html`<bdi>${text}</bdi>`;
}
