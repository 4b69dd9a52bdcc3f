import { html, type Markup, stored } from "./markup.ts";

export interface TableColumn<TRow> {
  readonly head: string;
  readonly cell: (row: TRow) => Markup;
  readonly isNumber?: boolean;
}

/** A table that scrolls sideways where the page is too narrow for it. The first cell of a row is its head. */
export function table<TRow>(
  caption: string,
  columns: readonly TableColumn<TRow>[],
  rows: readonly TRow[],
  foot?: TRow,
): Markup {
  return html`<div class="scroll" role="region" aria-label="${caption}" tabindex="0"><table>
<caption>${caption}</caption>
<thead><tr>${columns.map(({ head, isNumber }) => html`<th scope="col" class="${classOf(isNumber)}">${stored(head)}</th>`)}</tr></thead>
<tbody>
${rows.map((row) => tableRow(columns, row))}</tbody>${foot === undefined ? undefined : html`<tfoot>${tableRow(columns, foot)}</tfoot>`}
</table></div>`;
}

/** The numbers behind a chart, for those who want them. */
export function foldedTable<TRow>(
  caption: string,
  columns: readonly TableColumn<TRow>[],
  rows: readonly TRow[],
): Markup {
  return html`<details><summary>${caption}</summary>${table(caption, columns, rows)}</details>`;
}

function tableRow<TRow>(columns: readonly TableColumn<TRow>[], row: TRow): Markup {
  return html`<tr>${columns.map(({ cell, isNumber }, index) =>
    index === 0
      ? html`<th scope="row" class="${classOf(isNumber)}">${cell(row)}</th>`
      : html`<td class="${classOf(isNumber)}">${cell(row)}</td>`,
  )}</tr>
`;
}

function classOf(isNumber: boolean | undefined): string {
  return isNumber === true ? "n" : "";
}
