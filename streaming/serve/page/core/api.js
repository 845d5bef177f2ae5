// JSON from this origin. A problem document becomes an Error that says what it says.
import { askForToken, authorization } from "./session.js";

const AGAIN_MS = 500;
const MOST_MS = 10_000;

// The cluster that the address names; without a name the first one, whose API is at the root.
export const cluster = new URLSearchParams(location.search).get("cluster");
export const ROOT = "/api/v1/";
export const API = cluster ? `/clusters/${encodeURIComponent(cluster)}${ROOT}` : ROOT;

export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// Requests are repeated while server, network or cluster are away, and while a proxy answers for the server.
export async function get(path, params = {}, api = API) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const url = `${api}${path}${query.size ? `?${query}` : ""}`;
  for (let tries = 0; ; tries += 1) {
    try {
      const early = window.early.get(url);
      window.early.delete(url);
      const response = await (early?.response ?? fetch(url, { headers: authorization() }));
      if (response.ok) return await response.json();
      if (response.status === 401) {
        await askForToken();
        continue;
      }
      const isJson = response.headers.get("content-type")?.includes("json");
      const problem = isJson ? await response.json() : null;
      const isAway = problem ? problem.type === "/problems#unconnected" : response.status >= 500;
      if (!isAway) throw new ApiError(response.status, problem?.detail ?? response.statusText);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // fetch reports network failures as TypeError
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(MOST_MS, AGAIN_MS * 1.5 ** Math.min(tries, 8))));
  }
}

export const groupPath = (id) => `groups/${encodeURIComponent(id)}`;
