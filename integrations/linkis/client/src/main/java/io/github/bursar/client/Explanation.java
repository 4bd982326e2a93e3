package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** What a request would meet now, or why one waits. */
public final class Explanation {
  /** What would happen. */
  public enum Verdict {
    /** Not known to this client. */
    UNSPECIFIED,
    FITS,
    /** It would wait, or be refused if it does not want to. */
    WAITS,
    NEVER,
    /** It has been granted or has ended: see allocation. */
    DECIDED
  }

  private final Verdict verdict;
  private final String summary;
  private final List<Shortfall> shortfalls;
  private final List<Account> accounts;
  private final Map<String, Long> hostFilters;
  private final String hostId;
  private final long place;
  private final Allocation allocation;

  private Explanation(JsonNode n) {
    verdict = Json.constant(Verdict.class, "VERDICT_", Json.text(n, "verdict"), Verdict.UNSPECIFIED);
    summary = Json.text(n, "summary");
    shortfalls = Refusal.shortfalls(n.path("shortfalls"));
    List<Account> list = new ArrayList<>();
    n.path("accounts").forEach(a -> list.add(Account.fromJson(a)));
    accounts = Collections.unmodifiableList(list);
    hostFilters = Refusal.hostFilters(n.path("filters"));
    hostId = Json.text(n, "hostId");
    place = Json.longOr0(n, "place");
    allocation = n.path("allocation").isObject() ? Allocation.fromJson(n.path("allocation")) : null;
  }

  static Explanation fromJson(JsonNode n) {
    return new Explanation(n);
  }

  /** What would happen. */
  public Verdict verdict() {
    return verdict;
  }

  /** One line in words. */
  public String summary() {
    return summary;
  }

  /** Every account that has too little. */
  public List<Shortfall> shortfalls() {
    return shortfalls;
  }

  /** Every account that it touches. */
  public List<Account> accounts() {
    return accounts;
  }

  /** If no host was named: how many hosts each step of the search removed. */
  public Map<String, Long> hostFilters() {
    return hostFilters;
  }

  /** Where it would go now; empty if nowhere. */
  public String hostId() {
    return hostId;
  }

  /** How many go before it. */
  public long place() {
    return place;
  }

  /** The allocation, if one was named. */
  public Optional<Allocation> allocation() {
    return Optional.ofNullable(allocation);
  }
}
