/**
 * Before the type of a record, it makes the custom type of the entry that keeps it: archives have records that no
 * other kind of entry can hold. The entry's `data` are the fields of the record beside id, parent and time.
 */
export const RECORD_PREFIX = "pi.record/";

/**
 * Custom type of entries that change, on their branch, what the model gets of an earlier message: `data.targetId` is
 * the entry of that message, `data.replacement` has its new `content` or is `null`, which leaves the message out.
 */
export const CONTEXT_EDIT = `${RECORD_PREFIX}context_edit`;
