// What the page knows, in the worker: the last state as rows of services and clusters, and what it keeps of the past.
//
// Only rows that are in view leave it. Nothing here asks the server or draws.

/** How far back charts go, in milliseconds: less after a start, so that there is something to see. Values of load kept for it. */
const PAST = 30 * 60_000;
const PAST_LEAST = 2 * 60_000;
const VALUES_MAX = 720;
/** Members that a row shows; the service's own view shows all. */
const MEMBERS_SHOWN = 6;

const RANK = { up: 0, unknown: 1, exhausted: 2, pending: 2, closed: 3, out: 3, down: 4 };

export class Model {
  constructor() {
    this.known = false;
    this.loads = new Map();
    this.filtered = { services: null, clusters: null };
    this.version = 0;
  }

  /** Takes a new state; `at` is when it came, by this machine's clock. */
  take(state, at) {
    this.known = true;
    this.version += 1;
    this.at = at;
    // The server's clock is what its times are told by; the offset makes countdowns right here.
    this.now = Date.parse(state.now);
    this.state = state;
    const running = this.now - Date.parse(state.startedAt);
    this.since = this.now - Math.min(PAST, Math.max(PAST_LEAST, running));
    this.indexes = new Map(state.clusters.map((cluster, index) => [cluster.name, index]));
    this.pools = new Map(state.pools.map((pool) => [pool.name, pool]));
    this.services = state.pools.flatMap((pool) => {
      const shared = this.poolRow(pool);
      const names = pool.names.length > 0 ? pool.names : [null];
      return names.map((name) => ({ key: `${pool.name}\n${name ?? ""}`, name, search: `${name ?? ""} ${shared.search}`.toLowerCase(), shared }));
    });
    this.services.sort((a, b) => order(a.name ?? "\uffff", b.name ?? "\uffff") || order(a.shared.pool, b.shared.pool));
    this.targetsOf = new Map();
    for (const target of state.targets) {
      for (const cluster of target.clusters) {
        if (!this.targetsOf.has(cluster)) this.targetsOf.set(cluster, []);
        this.targetsOf.get(cluster).push(target);
      }
    }
    this.remember();
    this.filtered = { services: null, clusters: null };
  }

  poolRow(pool) {
    const members = pool.members.map((member) => ({
      cluster: member.cluster,
      index: this.indexes.get(member.cluster) ?? 0,
      standing: member.eligibility,
      weight: member.weight,
      tier: member.tier,
      share: member.share,
    }));
    const up = members.filter((member) => RANK[member.standing] <= RANK.unknown).length;
    const wrong = members.filter((member) => !["up", "closed"].includes(member.standing)).length;
    const health = pool.names.length === 0 ? "unused" : up === 0 ? "down" : wrong > 0 ? "partly" : "up";
    const search = [pool.name, ...members.map((member) => member.cluster)].join(" ");
    return { pool: pool.name, policy: pool.policy, ttl: pool.ttl, members, up, health, search };
  }

  /** Keeps the load of each cluster, and forgets clusters that are gone. */
  remember() {
    const kept = new Map();
    for (const cluster of this.state.clusters) {
      const load = counting(cluster);
      const past = this.loads.get(cluster.name) ?? [];
      if (load !== null) past.push([this.now, load]);
      while (past.length > VALUES_MAX || (past.length > 0 && past[0][0] < this.now - PAST)) past.shift();
      if (past.length > 0) kept.set(cluster.name, past);
    }
    this.loads = kept;
  }

  /** The few figures that are always in view, and what is short: overrides, configuration, zones. */
  summary() {
    const { state } = this;
    const clusters = state.clusters.map((cluster) => this.health(cluster.name).word);
    return {
      now: this.now,
      at: this.at,
      version: state.version,
      startedAt: state.startedAt,
      ready: state.ready,
      notReady: state.notReady,
      names: this.services.filter((service) => service.name !== null).length,
      pools: state.pools.length,
      poolsDown: new Set(this.services.filter((s) => s.shared.health === "down").map((s) => s.shared.pool)).size,
      poolsPartly: new Set(this.services.filter((s) => s.shared.health === "partly").map((s) => s.shared.pool)).size,
      clusters: clusters.length,
      clusterNames: state.clusters.slice(0, 200).map((cluster) => cluster.name),
      clustersUp: clusters.filter((word) => word === "up").length,
      clustersProbed: clusters.filter((word) => word !== "unused").length,
      overrides: state.overrides.map(override),
      config: { ...state.config, warnings: short(state.config.warnings) },
      conflicts: short(state.conflicts),
      listeners: short(state.listeners),
      zones: short(state.zones.map(({ name, serial, records, names }) => ({ name, serial, records, names: names.length }))),
    };
  }

  /** The rows `from` to `to` of a list, as far as they fit the filter. */
  rows(list, { from, to, filter = "", which = "all" }) {
    const wanted = `${which}\n${filter}`;
    if (this.filtered[list]?.wanted !== wanted) {
      const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = ({ search, shared }) =>
        (which === "all" || ["down", "partly"].includes(shared.health)) && words.every((word) => search.includes(word));
      const all = list === "services" ? this.services : this.state.clusters;
      const rows = list === "services" && (words.length > 0 || which !== "all") ? all.filter(fits) : all;
      this.filtered[list] = { wanted, rows, all: all.length };
    }
    const { rows, all } = this.filtered[list];
    const shown = rows.slice(from, to).map((row) => (list === "services" ? this.serviceRow(row) : this.clusterRow(row)));
    return { version: this.version, wanted, total: rows.length, all, from, rows: shown };
  }

  serviceRow({ key, name, shared }) {
    const { pool, policy, ttl, members, up, health } = shared;
    const bars = Object.fromEntries(
      ["declared", "answered", "arrived"].map((kind) => {
        const isKnown = members.some((member) => member.share[kind] !== null);
        return [kind, isKnown ? members.map((member) => [member.index, member.share[kind] ?? 0]) : null];
      }),
    );
    return { key, name, pool, policy, ttl, up, health, count: members.length, members: members.slice(0, MEMBERS_SHOWN), bars };
  }

  /** Everything about one service; none where it is gone. */
  service(key) {
    const found = this.services.find((service) => service.key === key);
    if (!found) return null;
    const pool = this.pools.get(found.shared.pool);
    const members = pool.members.map((member, at) => ({ ...member, index: found.shared.members[at].index }));
    return { ...this.serviceRow(found), ttlReason: pool.ttlReason, names: pool.names.slice(0, 100), namesInAll: pool.names.length, members };
  }

  clusterRow(cluster) {
    const { name, region, addresses, capacity, target, limit, exhausted, drain, warnings } = cluster;
    const word = cluster.load.find((load) => load.status === "used") ?? cluster.load[0] ?? null;
    const past = this.loads.get(name) ?? [];
    return {
      key: name,
      name,
      index: this.indexes.get(name),
      region,
      addresses,
      capacity,
      target,
      limit,
      exhausted,
      drain,
      warnings: warnings.slice(0, 3),
      share: cluster.share,
      load: counting(cluster),
      loadWord: word && { source: word.source, signal: word.signal, status: word.status, failure: word.failure, ageMs: word.ageMs },
      past,
      now: this.now,
      since: this.since,
      health: this.health(name),
      strip: this.strip(name),
    };
  }

  /** How a cluster stands: one word, how many of its targets are up, and why those that are not. */
  health(name) {
    const targets = this.targetsOf.get(name) ?? [];
    const up = targets.filter((target) => counts(target) === "up").length;
    const bad = targets.find((target) => counts(target) !== "up");
    const forced = targets.some((target) => target.overrideAction);
    let word = "unused";
    if (targets.length > 0) word = up === targets.length ? "up" : up > 0 ? "partly" : counts(bad);
    return { word, up, targets: targets.length, forced, cause: bad ? (bad.overrideAction ? `override ${bad.overrideAction}` : (bad.lastCause ?? "")) : "", since: bad?.since ?? targets[0]?.since ?? null };
  }

  /** What probes said of a cluster over time: pieces of one word each. */
  strip(name) {
    const targets = this.targetsOf.get(name) ?? [];
    if (targets.length === 0) return [];
    const changes = targets.flatMap((target, at) => target.history.map((change) => [Date.parse(change.at), at, change.to]));
    changes.sort((a, b) => a[0] - b[0]);
    const verdicts = targets.map((target) => (target.history.length > 0 ? "pending" : target.status));
    const pieces = [];
    let from = Math.max(this.since, Date.parse(this.state.startedAt));
    for (const [at, place, to] of [...changes, [this.now, 0, null]]) {
      if (at > from) {
        pieces.push([from, at, joined(verdicts)]);
        from = at;
      }
      if (to) verdicts[place] = to;
    }
    return pieces;
  }
}

/** The load that counts, in percent of the capacity. */
function counting(cluster) {
  const word = cluster.load.find((load) => load.status === "used");
  return word?.permille !== null && word?.permille !== undefined ? word.permille / 10 : null;
}

/** Returns the length of a list, and its first entries. */
const short = (list) => ({ count: list.length, some: list.slice(0, 20) });

/** An override in one form, of clusters or of pools (`{ pools: "shop*", load: "off" }`). */
function override(said) {
  if (said.pools === undefined) return { ...said, addresses: short(said.addresses) };
  return { ...said, scope: `pools ${said.pools}`, action: `load ${said.load}`, addresses: short(said.pinned ?? []) };
}

/** How a target counts: what is forced, else what probes say. */
function counts(target) {
  if (target.overrideAction) return target.overrideAction === "up" ? "up" : "out";
  return target.status;
}

function joined(verdicts) {
  if (verdicts.every((verdict) => verdict === "up")) return "up";
  if (verdicts.some((verdict) => verdict === "up")) return "partly";
  return verdicts.find((verdict) => verdict === "down") ?? verdicts[0];
}

const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
