// Views that are built in the background: how far they are; pause, resume, cancel.

import { useSignal } from "@preact/signals";
import { count, percent, rate, seconds } from "../base/format.ts";
import { ActButton, Refusal } from "../parts/ActButton.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import type { Build } from "../server/answers.ts";
import { get, post } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";
import { readStatus } from "../server/status.ts";

const READ_MILLISECONDS = 700;

export function BuildsPage() {
  const answer = useAnswer(() => get<{ builds: Build[] }>("builds"), "builds", READ_MILLISECONDS);
  const failed = useSignal<unknown>(undefined);
  const leaving = useSignal("");
  const act = async (view: string, action: "pause" | "resume" | "cancel") => {
    failed.value = undefined;
    leaving.value = "";
    try {
      await post(`builds/${encodeURIComponent(view)}/${action}`);
    } catch (fault) {
      failed.value = fault;
    }
    answer.again();
    void readStatus();
  };
  return (
    <div class="page">
      <h1>Builds</h1>
      <p class="quiet">
        Views that are filled in the background, beside everything else. Begin one with <code>WITH (build = 'background')</code>.
      </p>
      {failed.value !== undefined && <ErrorBox error={failed.value} />}
      {answer.error !== undefined && <ErrorBox error={answer.error} again={answer.again} />}
      {answer.value?.builds.map((build) => (
        <BuildCard key={build.view} build={build} act={(action) => void act(build.view, action)} leave={() => (leaving.value = build.view)} />
      ))}
      {answer.value && !answer.value.builds.length && <p class="nothing-here">No view is being built.</p>}
      {leaving.value && (
        <Dialog label="Cancel a build" onClose={() => (leaving.value = "")}>
          <div class="question">
            <h2>Cancel the build of {leaving.value}?</h2>
            <p>What was computed so far is thrown away, and the view is not created.</p>
            <button type="button" class="main danger" onClick={() => void act(leaving.value, "cancel")}>
              Cancel the build
            </button>{" "}
            <button type="button" onClick={() => (leaving.value = "")}>
              Go on building
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

interface CardProps {
  build: Build;
  act: (action: "pause" | "resume") => void;
  leave: () => void;
}

function BuildCard({ build, act, leave }: CardProps) {
  const paused = build.state === "paused";
  return (
    <section class="card build">
      <h3>
        {build.view} <span class="badge">{build.state}</span>
      </h3>
      {build.total > 0 && <progress value={build.share} max={1} aria-label={`Progress of ${build.view}`} />}
      <p class="build-facts">
        {build.total > 0 && <b>{percent(build.share)}</b>}
        {build.total > 0 && (
          <span>
            {count(build.rows)} of {count(build.total)} rows
          </span>
        )}
        {build.rate ? <span>{rate(build.rate)}</span> : null}
        {build.seconds_left !== null && <span>{seconds(build.seconds_left)} left</span>}
        {build.behind ? <span>{count(build.behind)} epochs behind</span> : null}
      </p>
      {build.reason && <p class="quiet">{build.reason}</p>}
      <p>
        <ActButton needs="owner" onClick={() => act(paused ? "resume" : "pause")}>
          {paused ? "Resume" : "Pause"}
        </ActButton>{" "}
        <ActButton needs="owner" onClick={leave}>
          Cancel
        </ActButton>{" "}
        <Refusal needs="owner" />
      </p>
    </section>
  );
}
