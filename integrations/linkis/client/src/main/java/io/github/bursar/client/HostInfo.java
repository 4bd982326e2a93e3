package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** A machine that runs engines. */
public final class HostInfo {
  /** What the coordinator thinks of a host's agent. */
  public enum State {
    /** Not known to this client. */
    UNSPECIFIED,
    /** Reports in time. */
    HEALTHY,
    /** Missed reports: no new grants. */
    SUSPECT,
    /** Silent for so long that its allocations were given up. */
    LOST,
    /** Known, and has not reported since this coordinator began to lead. */
    RETURNING
  }

  private final String id;
  private final String address;
  private final Map<String, String> labels;
  private final State state;
  private final boolean cordoned;
  private final boolean draining;
  private final Account account;
  private final Long headroomBytes;
  private final Long memoryTotalBytes;
  private final Long memoryAvailableBytes;
  private final Long cpuTotalMillis;
  private final Long cpuUsedMillis;
  private final Long load1Millis;
  private final Instant registerTime;
  private final Instant lastSyncTime;
  private final String version;
  private final long revision;
  private final String unavailableReason;
  private final long reservations;

  private HostInfo(JsonNode n) {
    id = Json.text(n, "id");
    address = Json.text(n, "address");
    labels = Json.labels(n.path("labels"));
    state = Json.constant(State.class, "HOST_STATE_", Json.text(n, "state"), State.UNSPECIFIED);
    cordoned = n.path("cordoned").asBoolean();
    draining = n.path("draining").asBoolean();
    account = Account.fromJson(n.path("account"));
    headroomBytes = Json.longOrNull(n.path("headroomBytes"));
    JsonNode sample = n.path("sample");
    memoryTotalBytes = Json.longOrNull(sample.path("memoryTotalBytes"));
    memoryAvailableBytes = Json.longOrNull(sample.path("memoryAvailableBytes"));
    cpuTotalMillis = Json.longOrNull(sample.path("cpuTotalMillis"));
    cpuUsedMillis = Json.longOrNull(sample.path("cpuUsedMillis"));
    load1Millis = Json.longOrNull(sample.path("load1Millis"));
    registerTime = Json.time(n, "registerTime");
    lastSyncTime = Json.time(n, "lastSyncTime");
    version = Json.text(n, "version");
    revision = Json.longOr0(n, "revision");
    unavailableReason = Json.text(n, "unavailableReason");
    reservations = Json.longOr0(n, "reservations");
  }

  static HostInfo fromJson(JsonNode n) {
    return new HostInfo(n);
  }

  /** Its id. */
  public String id() {
    return id;
  }

  /** Where its engines can be started. */
  public String address() {
    return address;
  }

  /** Its labels. */
  public Map<String, String> labels() {
    return labels;
  }

  /** What the coordinator thinks of its agent. */
  public State state() {
    return state;
  }

  /** Operators keep new engines off it. */
  public boolean cordoned() {
    return cordoned;
  }

  /** Likewise, and its engines are to end. */
  public boolean draining() {
    return draining;
  }

  /** What it has, as the ledger says. */
  public Account account() {
    return account;
  }

  /** Memory that new engines could get by its last measurement, in bytes; it may be negative. */
  public OptionalLong headroomBytes() {
    return Json.optional(headroomBytes);
  }

  /** Memory of the machine, in bytes. */
  public OptionalLong memoryTotalBytes() {
    return Json.optional(memoryTotalBytes);
  }

  /** Memory that is free on the machine, in bytes. */
  public OptionalLong memoryAvailableBytes() {
    return Json.optional(memoryAvailableBytes);
  }

  /** CPU of the machine in thousandths of a core. */
  public OptionalLong cpuTotalMillis() {
    return Json.optional(cpuTotalMillis);
  }

  /** CPU in use on the machine in thousandths of a core. */
  public OptionalLong cpuUsedMillis() {
    return Json.optional(cpuUsedMillis);
  }

  /** Load average over one minute in thousandths. */
  public OptionalLong load1Millis() {
    return Json.optional(load1Millis);
  }

  /** When its agent registered. */
  public Optional<Instant> registerTime() {
    return Optional.ofNullable(registerTime);
  }

  /** When its agent last reported. */
  public Optional<Instant> lastSyncTime() {
    return Optional.ofNullable(lastSyncTime);
  }

  /** Version of its agent. */
  public String version() {
    return version;
  }

  /** The ledger's revision at its last change. */
  public long revision() {
    return revision;
  }

  /** Why it takes no new engines; empty: it takes them. */
  public String unavailableReason() {
    return unavailableReason;
  }

  /** How many of its allocations are reservations. */
  public long reservations() {
    return reservations;
  }

  @Override
  public String toString() {
    return "host " + id + " (" + state + (unavailableReason.isEmpty() ? "" : ", " + unavailableReason) + ")";
  }
}
