import { check } from "./check.js";
import { Controller } from "./controller.js";

await new Controller("example.com/hello", check).run();
