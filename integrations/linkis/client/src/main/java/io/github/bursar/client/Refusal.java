package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Why there is not enough for a request, with the numbers of every account that has too little. */
public final class Refusal {
  private final BursarException.Code code;
  private final boolean never;
  private final String reason;
  private final String message;
  private final List<Shortfall> shortfalls;
  private final Map<String, Long> hostFilters;

  private Refusal(BursarException.Code code, String message, JsonNode n) {
    this.code = code;
    this.message = message;
    never = "VERDICT_NEVER".equals(Json.text(n, "verdict"));
    reason = Json.text(n, "reason");
    shortfalls = shortfalls(n.path("shortfalls"));
    hostFilters = hostFilters(n.path("filters"));
  }

  static Refusal fromJson(BursarException.Code code, String message, JsonNode detail) {
    return new Refusal(code, message, detail);
  }

  static List<Shortfall> shortfalls(JsonNode n) {
    List<Shortfall> list = new ArrayList<>();
    n.forEach(s -> list.add(Shortfall.fromJson(s)));
    return Collections.unmodifiableList(list);
  }

  static Map<String, Long> hostFilters(JsonNode n) {
    Map<String, Long> counts = new LinkedHashMap<>();
    for (String f : new String[] {"total", "labels", "health", "measurement", "books", "headroom", "held", "fit"}) {
      if (n.has(f)) {
        counts.put(f, Json.longOr0(n, f));
      }
    }
    return Collections.unmodifiableMap(counts);
  }

  /** RESOURCE_EXHAUSTED, or UNAVAILABLE if it is too early to refuse. */
  public BursarException.Code code() {
    return code;
  }

  /** It can never fit: ask for less. Else it may fit later. */
  public boolean never() {
    return never;
  }

  /** "refused", "never", "waited" or "vetoed". */
  public String reason() {
    return reason;
  }

  /** The refusal in words. */
  public String message() {
    return message;
  }

  /** Every account that has too little. */
  public List<Shortfall> shortfalls() {
    return shortfalls;
  }

  /** If no host was named: how many hosts each step of the search removed, by the step's name. */
  public Map<String, Long> hostFilters() {
    return hostFilters;
  }

  @Override
  public String toString() {
    return message;
  }
}
