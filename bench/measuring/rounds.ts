/** Somebody who does the same work as the others. */
export interface Contender {
  readonly name: string;
  /** Does the work once or for a while, and resolves to what is compared. */
  sample(): Promise<number>;
}

/**
 * Lets all contenders work once per round, each round beginning with another one, so that whatever else the machine
 * does meets all of them.
 *
 * @returns the samples of each, one per round
 */
export async function interleave(
  contenders: readonly Contender[],
  { rounds }: { rounds: number },
): Promise<Map<string, number[]>> {
  const samples = new Map(contenders.map(({ name }) => [name, [] as number[]]));
  for (let round = 0; round < rounds; round++) {
    const first = round % contenders.length;
    for (const contender of [...contenders.slice(first), ...contenders.slice(0, first)]) {
      samples.get(contender.name)?.push(await contender.sample());
    }
  }
  return samples;
}
