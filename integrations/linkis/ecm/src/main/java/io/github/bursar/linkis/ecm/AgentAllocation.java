package io.github.bursar.linkis.ecm;

import com.fasterxml.jackson.databind.JsonNode;

/** What is used here of an allocation, as an agent describes it. */
final class AgentAllocation {
  /** If an engine has ended and nobody knows how. */
  static final int UNKNOWN_EXIT = 1;

  private static final int OF_SIGNALS = 128; // as a shell says it

  final String id;

  /** Without the enum's prefix: WAITING, RESERVED, ACTIVE, RELEASED, EXPIRED, CANCELED, LOST. */
  final String state;

  final String hostId;
  final String address;
  final String reason;

  /** Of the engine's process in the agent's pid namespace; 0: none. */
  final long pid;

  final long startTime;

  /** The agent has been asked to end it. */
  final boolean stopping;

  /** Why the agent could not end it; empty: nothing went wrong. */
  final String stopError;

  /** The exit code, or 128 and the signal, as a shell has it. */
  final int exit;

  AgentAllocation(JsonNode node) {
    id = node.path("id").asText();
    state = node.path("state").asText().replace("ALLOCATION_STATE_", "");
    hostId = node.path("hostId").asText();
    address = node.path("address").asText();
    reason = node.path("reason").asText();
    pid = node.path("process").path("pid").asLong();
    startTime = node.path("process").path("startTime").asLong();
    stopping = node.path("stopping").asBoolean();
    stopError = node.path("stopError").asText();
    exit = exit(node.path("exitStatus"));
  }

  private static int exit(JsonNode status) {
    if (status.has("code")) {
      return status.get("code").asInt();
    }
    int signal = status.path("signal").asInt();
    return signal == 0 ? UNKNOWN_EXIT : OF_SIGNALS + signal;
  }

  boolean isReserved() {
    return state.equals("RESERVED");
  }

  boolean isActive() {
    return state.equals("ACTIVE");
  }

  boolean isOver() {
    return !isReserved() && !isActive() && !state.equals("WAITING");
  }

  @Override
  public String toString() {
    return "allocation " + id + " (" + state + (reason.isEmpty() ? "" : ", " + reason) + ")";
  }
}
