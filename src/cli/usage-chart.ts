import type { UsageReport } from "../postgres/usage-report.ts";
import type { UsageMeasure } from "../postgres/usage-report-options.ts";
import { usageChart } from "../usage/chart.ts";
import { print } from "./output.ts";

/** A report along time, drawn as this terminal can show it. */
export function printChart(report: UsageReport, column: UsageMeasure): void {
  const { isTTY, columns } = process.stdout;
  print(
    usageChart(report, {
      column,
      // Some terminals do not know their width.
      ...(isTTY && columns ? { width: columns } : {}),
      unicode: hasUnicode(process.env),
      // Knows NO_COLOR and TERM.
      color: isTTY === true && process.stdout.hasColors?.(),
    }),
  );
}

/** Where nothing is said about characters, terminals of today have them all. */
function hasUnicode({ TERM, LC_ALL, LC_CTYPE, LANG }: NodeJS.ProcessEnv): boolean {
  const locale = LC_ALL || LC_CTYPE || LANG;
  return TERM !== "dumb" && (locale === undefined || locale === "" || /utf-?8/i.test(locale));
}
