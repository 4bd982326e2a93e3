package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;

/** What an account limits: a host, a combination of labels, a queue. */
public final class AccountName {
  /** Kinds of accounts. */
  public enum Kind {
    /** Not known to this client. */
    UNSPECIFIED,
    /** A machine; label "host". */
    HOST,
    /** A combination of label values. */
    QUOTA,
    /**
     * A queue of an external cluster; labels "kind", "cluster", "path", "partition", and perhaps
     * "user".
     */
    QUEUE
  }

  private final Kind kind;
  private final Map<String, String> labels;
  private final String external;

  private AccountName(JsonNode n) {
    kind = Json.constant(Kind.class, "ACCOUNT_KIND_", Json.text(n, "kind"), Kind.UNSPECIFIED);
    labels = Json.labels(n.path("labels"));
    JsonNode e = n.path("external");
    external = e.isObject() ? Json.text(e, "kind") + ":" + Json.text(e, "cluster") + ":" + Json.text(e, "path") : "";
  }

  static AccountName fromJson(JsonNode n) {
    return new AccountName(n);
  }

  /** Its kind. */
  public Kind kind() {
    return kind;
  }

  /** Its labels. */
  public Map<String, String> labels() {
    return labels;
  }

  /** Of a quota that limits parts in queues: "kind:cluster:path"; else empty. */
  public String external() {
    return external;
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder();
    switch (kind) {
      case HOST:
        return "host " + labels.getOrDefault("host", "?");
      case QUEUE:
        text.append("queue ").append(labels.getOrDefault("path", "?"));
        if (!labels.getOrDefault("cluster", "").isEmpty()) {
          text.append(" of ").append(labels.get("cluster"));
        }
        if (labels.containsKey("user")) {
          text.append(" for user ").append(labels.get("user"));
        }
        return text.toString();
      default:
        text.append("quota");
        labels.forEach((k, v) -> text.append(' ').append(k).append('=').append(v));
        return external.isEmpty() ? text.toString() : text.append(" in ").append(external).toString();
    }
  }
}
