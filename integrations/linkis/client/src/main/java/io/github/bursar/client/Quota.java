package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/** A rule: what requests that match the selector may have together. */
public final class Quota {
  private final Map<String, String> selector;
  private final Resource limit;
  private final Resource guaranteed;
  private final int weight;
  private final Resource minimum;
  private final Resource increment;
  private final Resource maximum;
  private final String source;
  private final String hidden;
  private final String etag;

  private Quota(Builder b, String source, String hidden, String etag) {
    selector = Collections.unmodifiableMap(new TreeMap<>(b.selector));
    limit = b.limit;
    guaranteed = b.guaranteed;
    weight = b.weight;
    minimum = b.minimum;
    increment = b.increment;
    maximum = b.maximum;
    this.source = source;
    this.hidden = hidden;
    this.etag = etag;
  }

  /** Its keys are the scope; a value is exact, or "*" for one account for each value. */
  public Map<String, String> selector() {
    return selector;
  }

  /** The most its accounts may give away; only what is set is limited. */
  public Resource limit() {
    return limit;
  }

  /** Waiting requests of an account below this go first. */
  public Resource guaranteed() {
    return guaranteed;
  }

  /** Its share compared with others when requests wait; 0 is 1. */
  public int weight() {
    return weight;
  }

  /** Requests are rounded up to at least this. */
  public Resource minimum() {
    return minimum;
  }

  /** Requests are rounded up to multiples of this. */
  public Resource increment() {
    return increment;
  }

  /** Requests above this are refused. */
  public Resource maximum() {
    return maximum;
  }

  /** Where the rule came from: "file:PATH", the source of an apply, or "api"; set by the server. */
  public String source() {
    return source;
  }

  /** Why the rule is not in force although it is stored; empty: it is in force. */
  public String hidden() {
    return hidden;
  }

  /** Changes whenever the rule does. */
  public String etag() {
    return etag;
  }

  ObjectNode toJson() {
    ObjectNode o = Json.object();
    Json.putLabels(o, "selector", selector);
    o.set("limit", limit.toJson());
    if (!guaranteed.equals(Resource.EMPTY)) {
      o.set("guaranteed", guaranteed.toJson());
    }
    if (weight != 0) {
      o.put("weight", weight);
    }
    ObjectNode normalization = Json.object();
    putResource(normalization, "minimum", minimum);
    putResource(normalization, "increment", increment);
    putResource(normalization, "maximum", maximum);
    if (normalization.size() > 0) {
      o.set("normalization", normalization);
    }
    return o;
  }

  private static void putResource(ObjectNode o, String field, Resource r) {
    if (!r.equals(Resource.EMPTY)) {
      o.set(field, r.toJson());
    }
  }

  static Quota fromJson(JsonNode n) {
    Builder b = builder(Json.labels(n.path("selector")));
    b.limit = Resource.fromJson(n.path("limit"));
    b.guaranteed = Resource.fromJson(n.path("guaranteed"));
    b.weight = (int) Json.longOr0(n, "weight");
    JsonNode normalization = n.path("normalization");
    b.minimum = Resource.fromJson(normalization.path("minimum"));
    b.increment = Resource.fromJson(normalization.path("increment"));
    b.maximum = Resource.fromJson(normalization.path("maximum"));
    return new Quota(b, Json.text(n, "source"), Json.text(n, "hidden"), Json.text(n, "etag"));
  }

  /** A builder of a rule with this selector. */
  public static Builder builder(Map<String, String> selector) {
    return new Builder(selector);
  }

  /**
   * The same rule: selector, limit, guaranteed part, weight and rounding; not where it came from.
   */
  @Override
  public boolean equals(Object o) {
    return o instanceof Quota && toJson().equals(((Quota) o).toJson());
  }

  @Override
  public int hashCode() {
    return Objects.hash(selector, limit);
  }

  @Override
  public String toString() {
    return selector + ": " + limit;
  }

  /** Builds a rule. */
  public static final class Builder {
    private final Map<String, String> selector;
    private Resource limit = Resource.EMPTY;
    private Resource guaranteed = Resource.EMPTY;
    private int weight;
    private Resource minimum = Resource.EMPTY;
    private Resource increment = Resource.EMPTY;
    private Resource maximum = Resource.EMPTY;

    private Builder(Map<String, String> selector) {
      this.selector = new TreeMap<>(selector);
    }

    /** The most its accounts may give away. */
    public Builder limit(Resource limit) {
      this.limit = Objects.requireNonNull(limit);
      return this;
    }

    /** What its accounts are guaranteed. */
    public Builder guaranteed(Resource guaranteed) {
      this.guaranteed = Objects.requireNonNull(guaranteed);
      return this;
    }

    /** Its share compared with others. */
    public Builder weight(int weight) {
      this.weight = weight;
      return this;
    }

    /**
     * How requests are rounded: up to minimum, then to multiples of increment; above maximum
     * refused.
     */
    public Builder normalization(Resource minimum, Resource increment, Resource maximum) {
      this.minimum = Objects.requireNonNull(minimum);
      this.increment = Objects.requireNonNull(increment);
      this.maximum = Objects.requireNonNull(maximum);
      return this;
    }

    /** The rule. */
    public Quota build() {
      return new Quota(this, "", "", "");
    }
  }
}
