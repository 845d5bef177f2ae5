// JSON from this origin. A problem document becomes an Error that says what it says.
import { askForToken, authorization } from "./session.js";

const AGAIN_MS = 1000;

export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export async function get(path, params = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const url = `/api/v1/${path}${query.size ? `?${query}` : ""}`;
  for (;;) {
    let response;
    try {
      response = await fetch(url, { headers: authorization(), signal });
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS)); // the server is away: it restarts
      continue;
    }
    if (response.status === 401) {
      await askForToken();
      continue;
    }
    if (response.ok) return response.json();
    const described = response.headers.get("content-type")?.includes("json");
    throw new ApiError(response.status, described ? (await response.json()).detail : response.statusText);
  }
}

export const groupPath = (id) => `groups/${encodeURIComponent(id)}`;
