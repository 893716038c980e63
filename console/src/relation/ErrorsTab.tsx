// Rows that a view cannot compute and holds back, and their release.

import { useSignal } from "@preact/signals";
import { count } from "../base/format.ts";
import { ActButton, Refusal } from "../parts/ActButton.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { VirtualRows } from "../parts/VirtualRows.tsx";
import type { RowsAnswer } from "../server/answers.ts";
import { get, ofView, post } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";
import { readStatus } from "../server/status.ts";

interface Released {
  epoch: number;
  taken: number;
  left: number;
}

const READ_MILLISECONDS = 3000;

export function ErrorsTab({ name }: { name: string }) {
  const answer = useAnswer(() => get<RowsAnswer>(ofView(name, "errors")), name, READ_MILLISECONDS);
  const failed = useSignal<unknown>(undefined);
  const told = useSignal("");
  const asking = useSignal(false);

  const release = async (skip: boolean) => {
    asking.value = false;
    failed.value = undefined;
    try {
      const done = await post<Released>(`${ofView(name, "errors", "release")}?skip=${skip}`);
      told.value = `Epoch ${count(done.epoch)}: ${count(done.taken)} taken in, ${count(done.left)} still held back.`;
      answer.again();
      void readStatus();
    } catch (fault) {
      failed.value = fault;
    }
  };
  return (
    <div class="rows-tab">
      <div class="rows-tools">
        <ActButton needs="owner" class="main" onClick={() => void release(false)}>
          Try again
        </ActButton>
        <ActButton needs="owner" onClick={() => (asking.value = true)}>
          Go on without them
        </ActButton>
        <Refusal needs="owner" />
        <span class="quiet" role="status">
          {told.value}
        </span>
      </div>
      {failed.value !== undefined && <ErrorBox error={failed.value} />}
      {answer.error !== undefined && <ErrorBox error={answer.error} again={answer.again} />}
      {answer.value && <VirtualRows columns={answer.value.columns} rows={answer.value.rows} label={`Rows held back from ${name}`} />}
      {asking.value && (
        <Dialog label="Go on without these rows" onClose={() => (asking.value = false)}>
          <div class="question">
            <h2>Go on without these rows?</h2>
            <p>
              {name} follows all later changes again, and never shows the rows that are at fault. What they were is kept in its errors
              until then.
            </p>
            <button type="button" class="main danger" onClick={() => void release(true)}>
              Go on without them
            </button>{" "}
            <button type="button" onClick={() => (asking.value = false)}>
              Keep holding
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}
