import { setTimeout as sleep } from "node:timers/promises";

const FIRST_DELAY_MS = 4;
const MAX_DELAY_MS = 250;

/** Waits longer after each attempt; jitter keeps writers that failed together from meeting again. */
export async function backOff(attempt: number): Promise<void> {
  await sleep(Math.random() * Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt));
}
