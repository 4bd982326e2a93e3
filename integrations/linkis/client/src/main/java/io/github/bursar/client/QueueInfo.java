package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;

/** A queue of an external cluster, in one partition of it. */
public final class QueueInfo {
  private final String kind;
  private final String cluster;
  private final String path;
  private final String parent;
  private final String state;
  private final String unavailable;
  private final Account account;

  private QueueInfo(JsonNode n) {
    kind = Json.text(n, "kind");
    cluster = Json.text(n, "cluster");
    path = Json.text(n, "path");
    parent = Json.text(n, "parent");
    state = Json.text(n, "state");
    unavailable = Json.text(n, "unavailable");
    account = Account.fromJson(n.path("account"));
  }

  static QueueInfo fromJson(JsonNode n) {
    return new QueueInfo(n);
  }

  /** The kind of its provider, such as "yarn". */
  public String kind() {
    return kind;
  }

  /** The configured name of its cluster. */
  public String cluster() {
    return cluster;
  }

  /** Its full path. */
  public String path() {
    return path;
  }

  /** The path of the queue above; empty for the root. */
  public String parent() {
    return parent;
  }

  /** As the cluster says, such as "RUNNING". */
  public String state() {
    return state;
  }

  /** Why it grants nothing now, in words; empty: it grants. */
  public String unavailable() {
    return unavailable;
  }

  /** What it may have at most, what we and others have of it. */
  public Account account() {
    return account;
  }

  @Override
  public String toString() {
    return "queue " + kind + ":" + cluster + ":" + path + (unavailable.isEmpty() ? "" : " (" + unavailable + ")");
  }
}
