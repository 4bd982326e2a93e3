package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;

/** What an account lacks for a request. */
public final class Shortfall {
  private final AccountName account;
  private final String dimension;
  private final long requested;
  private final long available;
  private final long limit;
  private final long largest;
  private final String note;
  private final String detail;

  private Shortfall(JsonNode n) {
    account = AccountName.fromJson(n.path("account"));
    dimension = Json.text(n, "dimension");
    requested = Json.longOr0(n, "requested");
    available = Json.longOr0(n, "available");
    limit = Json.longOr0(n, "limit");
    largest = Json.longOr0(n, "largest");
    note = Json.text(n, "note");
    detail = Json.text(n, "detail");
  }

  static Shortfall fromJson(JsonNode n) {
    return new Shortfall(n);
  }

  /** Which account. */
  public AccountName account() {
    return account;
  }

  /** "memory" (bytes), "cpu" (thousandths of a core), "instances", or a custom name. */
  public String dimension() {
    return dimension;
  }

  /** What was asked for. */
  public long requested() {
    return requested;
  }

  /** What a request could get. */
  public long available() {
    return available;
  }

  /** The account's limit. */
  public long limit() {
    return limit;
  }

  /** With the note "never": the most that may be asked for here. */
  public long largest() {
    return largest;
  }

  /**
   * Why it has too little, if the numbers do not say it: "measured", "held", "health", "never" and
   * so on.
   */
  public String note() {
    return note;
  }

  /** The note in full. */
  public String detail() {
    return detail;
  }

  @Override
  public String toString() {
    StringBuilder b = new StringBuilder();
    b.append(account).append(": ").append(dimension).append(" requested ").append(requested);
    b.append(", available ").append(available).append(", limit ").append(limit);
    if (!note.isEmpty()) {
      b.append(" (").append(note).append(detail.isEmpty() ? "" : ": " + detail).append(')');
    }
    return b.toString();
  }
}
