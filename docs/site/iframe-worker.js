// Search without a server: browsers start no Worker from file://, so its script runs in a hidden frame (IFrameWorker, the name that
// Material's search asks for).
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>window.postMessage = data => frameElement.answer(data)<\/script><script src="${url}"><\/script>`;
      frame.answer = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise(resolve => frame.addEventListener("load", () => resolve(frame.contentWindow)));
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
