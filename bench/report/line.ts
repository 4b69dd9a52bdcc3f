/** Whether more or less is better follows from the unit. */
export type Unit = "per second" | "ms" | "MiB";

/** One kind of work, and how long whom it took. */
export interface Line {
  readonly section: string;
  readonly work: string;
  readonly unit: Unit;
  readonly ours: Value;
  readonly others: readonly OtherValue[];
}

export interface Value {
  readonly median: number;
  /** Half the distance between the quartiles, as a share of the median. */
  readonly spread: number;
  readonly samples: readonly number[];
}

export interface OtherValue extends Value {
  readonly name: string;
  /** How many times better we are; less than 1 where we are worse. */
  readonly ratio: number;
}

/** The same work of ours at growing sizes. */
export interface Growth {
  readonly work: string;
  readonly sizes: readonly { readonly entries: number; readonly ms: number }[];
}

/** What one append costs. */
export interface AppendCost {
  readonly connections: number;
  readonly clientCpuMs: number | undefined;
  readonly serverCpuMs: number | undefined;
  readonly pgbenchServerCpuMs: number | undefined;
  /** How often it was repeated after a serialization failure. */
  readonly repeats: number | undefined;
  readonly pgbenchRepeats: number | undefined;
  /** The same in sessions that have just begun. */
  readonly repeatsInNew: number | undefined;
  readonly perSecondInNew: number | undefined;
}
