// One stream of events for the whole browser. Browsers open six connections to a server over all tabs and let the seventh wait in
// silence; so one tab, which holds a Web Lock, has the EventSource, and tells the others over a BroadcastChannel.

const NAME = "sluice-stream";
const PATH = "/api/v1/stream?kinds=Job,ClusterQueue,LocalQueue,Cohort,Workload,Agent,AdmissionCheck,Budget,JobKind";

/** Call tell({event, data}) for each frame and for `lost`, whichever tab has the stream. `since` gives the last sequence that was told. */
export function follow(tell, since) {
  const channel = "BroadcastChannel" in window ? new BroadcastChannel(NAME) : null;
  let leads = false;
  let hello = null;
  const both = (message) => {
    if (message.event === "hello" || message.event === "lost") hello = message;
    tell(message);
    channel?.postMessage(message);
  };
  if (channel) {
    channel.onmessage = ({ data }) => {
      if (data.event !== "who") tell(data);
      else if (leads && hello) channel.postMessage(hello.event === "hello" ? { event: "hello", data: { ...hello.data, upto: since() } } : hello);
    };
    channel.postMessage({ event: "who" });
  }
  const lead = () => new Promise(() => { leads = true; connect(both, since); });
  // Without a secure context there are no locks: each tab has a stream of its own then.
  if (navigator.locks) navigator.locks.request(NAME, lead).catch(() => {});
  else lead();
}

function connect(tell, since, tries = 0) {
  const from = since();
  const source = new EventSource(from ? `${PATH}&since=${from}` : PATH);
  let worked = false;
  for (const event of ["hello", "delta", "resync"]) {
    source.addEventListener(event, (message) => {
      worked = true;
      tell({ event, data: JSON.parse(message.data) });
    });
  }
  source.onerror = () => {
    tell({ event: "lost", data: {} });
    // The browser tries again by itself with Last-Event-ID, unless the answer was no stream at all.
    if (source.readyState !== EventSource.CLOSED) return;
    const wait = Math.min(30_000, 1000 * 2 ** (worked ? 0 : tries)) * (0.75 + Math.random() / 2);
    setTimeout(() => connect(tell, since, worked ? 0 : tries + 1), wait);
  };
}
