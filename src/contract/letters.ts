/** Text that is no wider than so many columns of a terminal; an ellipsis stands for what is left out. */
export function shortenedTo(width: number, text: string, cut: "start" | "end" = "end"): string {
  if (widthOf(text) <= width) return text;
  const letters = lettersOf(text);
  if (cut === "start") letters.reverse();
  const kept: string[] = [];
  let room = width - 1;
  for (const letter of letters) {
    room -= letterWidth(letter);
    if (room < 0) break;
    kept.push(letter);
  }
  return cut === "start" ? `…${kept.reverse().join("")}` : `${kept.join("")}…`;
}

const ASCII = /^[ -~]*$/;

/** About how many columns of a terminal a text takes. */
export function widthOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  return lettersOf(text).reduce((width, letter) => width + letterWidth(letter), 0);
}

const LETTERS = new Intl.Segmenter();
const WIDE =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\u3000-\u303f\uff01-\uff60]/u;

/** As a reader counts them: a letter and its accents are one. */
function lettersOf(text: string): string[] {
  return Array.from(LETTERS.segment(text), ({ segment }) => segment);
}

/** About how many columns of a terminal it takes. */
function letterWidth(letter: string): number {
  return WIDE.test(letter) ? 2 : 1;
}
