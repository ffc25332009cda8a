// Keys: one list, which `?` shows. Single letters count only when no field has the focus, and can be switched off.
import { useLayoutEffect } from "preact/hooks";
import { signal } from "@preact/signals";

const KEPT = "sluice-single-keys";
export const singleKeys = signal(localStorage.getItem(KEPT) !== "off");
export function setSingleKeys(on) {
  singleKeys.value = on;
  localStorage.setItem(KEPT, on ? "on" : "off");
}

/** key -> [{keys, text, act}], the newest last: what a page says counts before what the shell says. */
const bound = new Map();
export const bindings = () => [...bound.values()].map((all) => all.at(-1)).filter((one) => one.text);

/** Bind keys while a component is there, from when it can be seen: {"j": ["next row", act], "g n": [...]}. act returns false when it has nothing to do. */
export function useKeys(map) {
  useLayoutEffect(() => {
    const mine = Object.entries(map).map(([keys, [text, act]]) => ({ keys, text, act }));
    for (const one of mine) bound.set(one.keys, [...(bound.get(one.keys) ?? []), one]);
    return () => {
      for (const one of mine) {
        const left = bound.get(one.keys).filter((other) => other !== one);
        if (left.length) bound.set(one.keys, left);
        else bound.delete(one.keys);
      }
    };
  });
}

const typing = (target) => target.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
let first = "";
let firstAt = 0;

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const held = event.ctrlKey || event.metaKey;
  const key = held ? `Ctrl-${event.key.toUpperCase()}` : event.key;
  if (!held) {
    if (typing(event.target) || event.target.closest?.("dialog")) return;
    if (key.length === 1 && !singleKeys.value) return;
  }
  const pair = first && Date.now() - firstAt < 1500 ? `${first} ${key}` : "";
  first = "";
  const found = (pair && bound.get(pair)) || bound.get(key);
  if (found) {
    for (const one of [...found].reverse()) {
      if (one.act(event) !== false) { event.preventDefault(); return; }
    }
  } else if ([...bound.keys()].some((keys) => keys.startsWith(`${key} `))) {
    first = key;
    firstAt = Date.now();
  }
});
