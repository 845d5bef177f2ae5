// JSON from this origin. A problem document becomes an Error that says what it says.
import { askForToken, authorization } from "./session.js";

export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export async function get(path, params = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const url = `/api/${path}${query.size ? `?${query}` : ""}`;
  for (;;) {
    const response = await fetch(url, { headers: authorization(), signal });
    if (response.status === 401) {
      await askForToken();
      continue;
    }
    const body = await response.json();
    if (!response.ok) throw new ApiError(response.status, body.detail);
    return body;
  }
}

export const groupPath = (id) => `groups/${encodeURIComponent(id)}`;
