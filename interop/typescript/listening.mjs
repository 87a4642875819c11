// `node --import ./listening.mjs SERVER`: whatever port the server asks for, it gets a free one of 127.0.0.1, and says
// which on stderr.

import { Server } from "node:net";

const { listen } = Server.prototype;
Server.prototype.listen = function (...args) {
  const told = () => console.error(`listening on http://127.0.0.1:${this.address().port}`);
  const callback = args.find((it) => typeof it === "function");
  return listen.call(this, { port: 0, host: "127.0.0.1" }, () => (told(), callback?.()));
};
