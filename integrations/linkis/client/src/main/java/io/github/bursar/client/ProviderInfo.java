package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;

/** How an external cluster is read, as far as callers need it. */
public final class ProviderInfo {
  private final String kind;
  private final String cluster;
  private final boolean known;
  private final String message;

  private ProviderInfo(JsonNode n) {
    kind = Json.text(n, "kind");
    cluster = Json.text(n, "cluster");
    known = Json.text(n.path("health"), "state").equals("STATE_KNOWN");
    message = Json.text(n.path("health"), "message");
  }

  static ProviderInfo fromJson(JsonNode n) {
    return new ProviderInfo(n);
  }

  /** Its kind, such as "yarn". */
  public String kind() {
    return kind;
  }

  /** The cluster's configured name. */
  public String cluster() {
    return cluster;
  }

  /** Whether the last reading is recent and good, so that the figures of its queues hold. */
  public boolean known() {
    return known;
  }

  /** Why it is not known, or the last fault. */
  public String message() {
    return message;
  }
}
