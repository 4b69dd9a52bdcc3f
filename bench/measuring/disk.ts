import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import { median } from "./statistics.ts";

const PAGE = Buffer.alloc(8_192, 1);
const TIMES = 50;

/** How long the disk takes to make one page durable, in milliseconds: no durable commit is faster. */
export async function fdatasyncMs(directory: string): Promise<number> {
  const path = join(directory, "sync-probe");
  const file = await open(path, "w");
  try {
    const samples: number[] = [];
    for (let time = 0; time < TIMES; time++) {
      await file.write(PAGE, 0, PAGE.length, 0);
      const start = performance.now();
      await file.datasync();
      samples.push(performance.now() - start);
    }
    return median(samples);
  } finally {
    await file.close();
    await rm(path);
  }
}
