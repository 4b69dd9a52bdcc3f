import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import type { SessionStore } from "../stores/session-store.ts";
import { ALL_TASKS } from "../tasks/all-tasks.ts";
import { forkAndDelete } from "../tasks/pi-forks.ts";
import { compact, type SeededSession, seedSession } from "../tasks/seeded-session.ts";
import type { Task } from "../tasks/task.ts";
import { measureFootprint } from "./footprint.ts";
import type { Operations } from "./operations.ts";

/** What can be done with any store of sessions. */
export function sessionOperations(store: SessionStore): Partial<Operations> {
  const seeded = new Map<string, SeededSession>();
  const tasks = new Map<string, Promise<Task>>();
  const added = new Map<string, number>();
  const seededIn = (group: string): SeededSession => {
    const session = seeded.get(group);
    if (session === undefined) throw new Error(`nothing was seeded in ${group}`);
    return session;
  };
  const openTask = async (name: string, group: string): Promise<Task> => {
    const open = ALL_TASKS.get(name);
    if (open === undefined) throw new Error(`there is no task "${name}"`);
    return open({
      group: await store.group(group),
      seeded: () => seededIn(group),
      addedSessions: added.get(group) ?? 0,
    });
  };
  return {
    async seed({ group, entries }) {
      seeded.set(group, await seedSession(await store.group(group), entries));
    },
    compact: ({ group, messages }) => compact(seededIn(group), messages),
    async addSessions({ group, count }) {
      await (await store.group(group)).addSessions(count);
      added.set(group, count);
    },
    async close({ group }) {
      await seededIn(group).session.close(BACKGROUND_CONTEXT);
      seeded.delete(group);
    },
    async time({ task: name, group, times }) {
      const key = `${name} in ${group}`;
      const opening = tasks.get(key) ?? openTask(name, group);
      tasks.set(key, opening);
      return timeTask(await opening, times);
    },
    forkAndDelete: async ({ group, scenario }) =>
      forkAndDelete(await store.group(group), seededIn(group), scenario),
    footprint: (input) => measureFootprint(store, input),
  };
}

/** @returns milliseconds of one time */
async function timeTask({ before, run, after, expected }: Task, times: number): Promise<number> {
  await before?.();
  let result = expected;
  const start = performance.now();
  for (let time = 0; time < times; time++) result = await run();
  const ms = (performance.now() - start) / times;
  await after?.();
  if (result !== expected) throw new Error(`expected ${expected}, got ${result}`);
  return ms;
}
