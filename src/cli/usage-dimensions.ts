import { type Command, InvalidArgumentError } from "commander";
import { type ConnectionOptions, connect } from "./connection.ts";
import { oneLine, print, printJson } from "./output.ts";

interface DimensionOptions extends ConnectionOptions {
  none?: true;
  json?: true;
}

export function addDimensions(usage: Command): void {
  usage
    .command("dimensions [keys...]")
    .description("show or set by which keys of session metadata the tenant's usage can be grouped")
    .option("--none", "group by none from now on")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Usage is written down with the values that its session has at that time; what is written already stays.

Examples:
  pi-sessions usage dimensions
  pi-sessions usage dimensions project team --tenant acme`,
    )
    .action(async (keys: string[], _options, command: Command) => {
      const options = command.optsWithGlobals<DimensionOptions>();
      if (options.none && keys.length > 0) throw new InvalidArgumentError("--none goes without keys.");
      await using connection = await connect(options);
      const { usage: ledger } = connection.database;
      if (options.none || keys.length > 0) await ledger.setDimensions(options.tenant, keys);
      const dimensions = await ledger.dimensions(options.tenant);
      if (options.json) printJson(dimensions);
      else
        print(dimensions.length === 0 ? "No dimensions." : dimensions.map((key) => oneLine(key)).join("\n"));
    });
}
