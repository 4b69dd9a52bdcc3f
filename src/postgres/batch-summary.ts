import { sessionName } from "../contract/address.ts";
import { storableText } from "../contract/text.ts";
import type { Columns, WriteBatch } from "./write-batch.ts";

/**
 * The listing shows the session's name in a form that `text` can hold. `undefined`: this commit does not change it.
 */
export function newName({ setValues, deleteValues }: WriteBatch): string | null | undefined {
  const isName = (columns: Columns<"namespace" | "key">) =>
    columns.namespace.findIndex(
      (namespace, row) => namespace === sessionName.namespace && columns.key[row] === sessionName.key,
    );
  if (isName(deleteValues) !== -1) return null;
  const row = isName(setValues);
  if (row === -1) return undefined;
  const name: unknown = JSON.parse(setValues.value[row] as string);
  return typeof name === "string" ? storableText(name) : null;
}

/** Where there may be a value that this commit overwrites or deletes. */
export function replacedValues({ setValues, deleteValues }: WriteBatch): Columns<"namespace" | "key"> {
  return {
    namespace: [...setValues.namespace, ...deleteValues.namespace],
    key: [...setValues.key, ...deleteValues.key],
  };
}

export function firstPreview({ entries }: WriteBatch): string | null {
  return (entries.preview.find((preview) => preview !== null) ?? null) as string | null;
}
