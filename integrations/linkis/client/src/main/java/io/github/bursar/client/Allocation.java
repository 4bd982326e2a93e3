package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** One entry in the ledger. */
public final class Allocation {
  private final String id;
  private final String requestId;
  private final AllocationState state;
  private final Map<String, String> labels;
  private final Resource requested;
  private final Resource entitled;
  private final Resource measured;
  private final Resource measuredPeak;
  private final String hostId;
  private final String hostAddress;
  private final Instant createTime;
  private final Instant reserveTime;
  private final Instant confirmTime;
  private final Instant endTime;
  private final Instant expireTime;
  private final String reason;
  private final Phase phase;
  private final long revision;
  private final String caller;
  private final int priority;
  private final int pid;
  private final String address;
  private final List<String> applicationIds;
  private final boolean overLimit;
  private final boolean stopping;
  private final boolean releasing;
  private final Integer exitCode;
  private final int exitSignal;
  private final boolean outOfMemory;

  private Allocation(JsonNode n) {
    id = Json.text(n, "id");
    requestId = Json.text(n, "requestId");
    state = AllocationState.of(Json.text(n, "state"));
    labels = Json.labels(n.path("labels"));
    requested = Resource.fromJson(n.path("requested"));
    entitled = Resource.fromJson(n.path("entitled"));
    measured = Resource.fromJson(n.path("measured"));
    measuredPeak = Resource.fromJson(n.path("measuredPeak"));
    hostId = Json.text(n, "hostId");
    hostAddress = Json.text(n, "hostAddress");
    createTime = Json.time(n, "createTime");
    reserveTime = Json.time(n, "reserveTime");
    confirmTime = Json.time(n, "confirmTime");
    endTime = Json.time(n, "endTime");
    expireTime = Json.time(n, "expireTime");
    reason = Json.text(n, "reason");
    phase = Phase.of(Json.text(n, "phase"));
    revision = Json.longOr0(n, "revision");
    caller = Json.text(n, "caller");
    priority = (int) Json.longOr0(n, "priority");
    pid = (int) Json.longOr0(n.path("process"), "pid");
    address = Json.text(n, "address");
    applicationIds = Json.texts(n.path("applicationIds"));
    overLimit = n.path("overLimit").asBoolean();
    stopping = n.path("stopping").asBoolean();
    releasing = n.path("releasing").asBoolean();
    JsonNode exit = n.path("exitStatus");
    Long code = Json.longOrNull(exit.path("code"));
    exitCode = code == null ? null : code.intValue();
    exitSignal = (int) Json.longOr0(exit, "signal");
    outOfMemory = exit.path("outOfMemory").asBoolean();
  }

  static Allocation fromJson(JsonNode n) {
    if (Json.text(n, "id").isEmpty()) {
      throw new Json.MalformedAnswer("an allocation without an id");
    }
    return new Allocation(n);
  }

  /** Its id. */
  public String id() {
    return id;
  }

  /** The id under which it was asked for. */
  public String requestId() {
    return requestId;
  }

  /** Where it is in its life. */
  public AllocationState state() {
    return state;
  }

  /** How far its engine is on the way to being usable. */
  public Phase phase() {
    return phase;
  }

  /** Its labels, after the coordinator's label rules. */
  public Map<String, String> labels() {
    return labels;
  }

  /** What was asked for. */
  public Resource requested() {
    return requested;
  }

  /** What it may use, and counts as in every account. */
  public Resource entitled() {
    return entitled;
  }

  /** What its process tree was last seen to use. */
  public Resource measured() {
    return measured;
  }

  /** The most that it was seen to use. */
  public Resource measuredPeak() {
    return measuredPeak;
  }

  /** The host it is on; empty as long as it waits for one. */
  public String hostId() {
    return hostId;
  }

  /** Where that host's engines can be started. */
  public String hostAddress() {
    return hostAddress;
  }

  /** When it was asked for. */
  public Optional<Instant> createTime() {
    return Optional.ofNullable(createTime);
  }

  /** When it was last granted. */
  public Optional<Instant> reserveTime() {
    return Optional.ofNullable(reserveTime);
  }

  /** When it was confirmed. */
  public Optional<Instant> confirmTime() {
    return Optional.ofNullable(confirmTime);
  }

  /** When it ended. */
  public Optional<Instant> endTime() {
    return Optional.ofNullable(endTime);
  }

  /** When a reservation or a lease returns by itself, or a wait is over. */
  public Optional<Instant> expireTime() {
    return Optional.ofNullable(expireTime);
  }

  /** Why it is in this state, in words. */
  public String reason() {
    return reason;
  }

  /** The ledger's revision at its last transition. */
  public long revision() {
    return revision;
  }

  /** Who asked. */
  public String caller() {
    return caller;
  }

  /** Higher goes first. */
  public int priority() {
    return priority;
  }

  /** The pid on its host; 0: none is known. */
  public int pid() {
    return pid;
  }

  /** Where the engine can be reached, as confirmed. */
  public String address() {
    return address;
  }

  /** Its applications in external clusters. */
  public List<String> applicationIds() {
    return applicationIds;
  }

  /** It was taken over from an agent although an account had not the room. */
  public boolean overLimit() {
    return overLimit;
  }

  /** Its host's agent was asked to end it. */
  public boolean stopping() {
    return stopping;
  }

  /** Whether it was released while its process lived: it counts until the process has ended. */
  public boolean releasing() {
    return releasing;
  }

  /** The exit code, if its process exited and its agent saw that. */
  public Optional<Integer> exitCode() {
    return Optional.ofNullable(exitCode);
  }

  /** The signal that ended its process; 0: none is known. */
  public int exitSignal() {
    return exitSignal;
  }

  /** The kernel ended it for lack of memory. */
  public boolean outOfMemory() {
    return outOfMemory;
  }

  @Override
  public String toString() {
    return "allocation " + id + " (" + state + ") of " + labels + " on " + hostId + ": " + entitled;
  }
}
