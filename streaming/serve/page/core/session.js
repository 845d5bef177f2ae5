// The bearer token, when the server asks for one: kept for this tab only.
import { h } from "./dom.js";

let token = sessionStorage.getItem("token");
let asking = null;

export const authorization = () => (token ? { Authorization: `Bearer ${token}` } : {});

// Ask until the person gives one; several requests share one dialog.
export function askForToken() {
  asking ??= new Promise((resolve) => {
    const input = h("input", { class: "field mono", type: "password", autocomplete: "off", "aria-label": "Access token", required: true });
    const dialog = h("dialog", { "aria-labelledby": "token-title" },
      h("h2", { id: "token-title" }, "Access token"),
      h("p", {}, token ? "That token was not accepted." : "Enter a token from the server's --token-file."),
      h("form", { method: "dialog" }, input, h("button", { class: "button primary" }, "Continue")),
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      token = input.value.trim();
      sessionStorage.setItem("token", token);
      dialog.remove();
      asking = null;
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}
