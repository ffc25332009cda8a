import { check, watch } from "./check.js";
import { Controller } from "./controller.js";

await new Controller("example.com/hello", check, { watch, watchSeconds: 5 }).run();
