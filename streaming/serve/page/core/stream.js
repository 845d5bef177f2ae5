// Server-sent events through fetch: EventSource can't send a token or a Last-Event-ID of its own.
import { askForToken, authorization } from "./session.js";

const SILENCE_MS = 40_000; // the server speaks every 15 s

export class Stream {
  constructor(path, { onEvent, onLost }) {
    this.path = path;
    this.onEvent = onEvent;
    this.onLost = onLost;
    this.lastId = null;
    this.retry = 1000;
    this.tries = 0;
    this.closed = false;
    this.run();
  }

  async run() {
    while (!this.closed) {
      const abort = new AbortController();
      try {
        await this.follow(abort);
      } catch (error) {
        if (!(error instanceof TypeError || error.name === "AbortError")) throw error; // a network failure is expected
      }
      abort.abort();
      this.onLost(this.refusal);
      this.tries += 1;
      await new Promise((resolve) => setTimeout(resolve, Math.min(15_000, this.retry * 1.5 ** Math.min(this.tries - 1, 8))));
    }
  }

  async follow(abort) {
    this.refusal = null;
    const headers = { Accept: "text/event-stream", ...authorization() };
    if (this.lastId) headers["Last-Event-ID"] = this.lastId;
    const early = window.early.get(this.path);
    window.early.delete(this.path);
    if (early) abort.signal.addEventListener("abort", () => early.abort.abort());
    const response = await (early?.response ?? fetch(this.path, { headers, signal: abort.signal, cache: "no-store" }));
    if (response.status === 401) {
      await response.body?.cancel();
      await askForToken();
      return;
    }
    if (!response.ok) {
      if (response.headers.get("content-type")?.includes("json")) this.refusal = (await response.json()).detail;
      return;
    }
    this.tries = 0;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        clearTimeout(watchdog);
        if (done) return;
        watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) this.take(block);
      }
    } finally {
      clearTimeout(watchdog);
    }
  }

  take(block) {
    let event = "message";
    let data = "";
    let id = null;
    for (const line of block.split("\n")) {
      const at = line.indexOf(": ");
      const value = line.slice(at + 2);
      if (line.startsWith("event: ")) event = value;
      else if (line.startsWith("data: ")) data += value;
      else if (line.startsWith("id: ")) id = value;
      else if (line.startsWith("retry: ")) this.retry = Number(value);
    }
    if (data) this.onEvent(event, JSON.parse(data));
    // Only once it is applied: an event that was lost half-way is asked for again.
    if (id) this.lastId = id;
  }
}
