/** What a command's exit code says. */
export const EXIT = {
  done: 0,
  /** Done, and something was found wrong. */
  foundFailures: 1,
  usage: 2,
  /** The database cannot be used. */
  database: 3,
} as const;

export const EXIT_HELP = `
Exit codes:
  0  done
  1  done, and something was found wrong (a broken file, a failed check, an unknown id)
  2  the command line is wrong
  3  the database cannot be used`;
