package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.TreeMap;

/**
 * A vector of quantities. What is not set is not zero: a limit lists what it limits, and a request
 * asks for what is set and not zero. Quantities are 0 to {@link #MAX_QUANTITY}.
 */
public final class Resource {
  /** The largest quantity: every reader of JSON keeps it exact. */
  public static final long MAX_QUANTITY = (1L << 53) - 1;

  /** Nothing is set. */
  public static final Resource EMPTY = builder().build();

  private final Long memoryBytes;
  private final Long cpuMillis;
  private final Long instances;
  private final Map<String, Long> custom;
  private final List<ExternalResource> external;

  private Resource(Builder b) {
    memoryBytes = b.memoryBytes;
    cpuMillis = b.cpuMillis;
    instances = b.instances;
    custom = Collections.unmodifiableMap(new TreeMap<>(b.custom));
    external = Collections.unmodifiableList(new ArrayList<>(b.external));
  }

  /** Memory in bytes. */
  public OptionalLong memoryBytes() {
    return Json.optional(memoryBytes);
  }

  /** CPU in thousandths of a core. */
  public OptionalLong cpuMillis() {
    return Json.optional(cpuMillis);
  }

  /** Number of engines, or of containers in a queue. */
  public OptionalLong instances() {
    return Json.optional(instances);
  }

  /** Countable things by name, such as "gpu". */
  public Map<String, Long> custom() {
    return custom;
  }

  /** The parts outside hosts, each in a place of its own. */
  public List<ExternalResource> external() {
    return external;
  }

  /**
   * The sum: a quantity is set if it is set in one of them. External parts are put together.
   *
   * @throws ArithmeticException if a sum does not fit 64 bits
   */
  public Resource plus(Resource other) {
    Builder b = toBuilder();
    b.memoryBytes = sum(memoryBytes, other.memoryBytes);
    b.cpuMillis = sum(cpuMillis, other.cpuMillis);
    b.instances = sum(instances, other.instances);
    other.custom.forEach((name, n) -> b.custom.merge(name, n, Math::addExact));
    b.external.clear();
    external.forEach(part -> addPart(b.external, part));
    other.external.forEach(part -> addPart(b.external, part));
    return b.build();
  }

  private static void addPart(List<ExternalResource> parts, ExternalResource part) {
    for (int i = 0; i < parts.size(); i++) {
      if (parts.get(i).samePlace(part)) {
        parts.set(i, parts.get(i).withAmount(parts.get(i).amount().plus(part.amount())));
        return;
      }
    }
    parts.add(part);
  }

  private static Long sum(Long a, Long b) {
    if (a == null || b == null) {
      return a == null ? b : a;
    }
    return Math.addExact(a, b);
  }

  /** A new builder with nothing set. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder that begins with what this one has. */
  public Builder toBuilder() {
    Builder b = new Builder();
    b.memoryBytes = memoryBytes;
    b.cpuMillis = cpuMillis;
    b.instances = instances;
    b.custom.putAll(custom);
    b.external.addAll(external);
    return b;
  }

  ObjectNode toJson() {
    ObjectNode o = JsonNodeFactory.instance.objectNode();
    Json.putLong(o, "memoryBytes", memoryBytes);
    Json.putLong(o, "cpuMillis", cpuMillis);
    Json.putLong(o, "instances", instances);
    if (!custom.isEmpty()) {
      ObjectNode c = o.putObject("custom");
      custom.forEach((name, n) -> c.put(name, Long.toString(n)));
    }
    if (!external.isEmpty()) {
      ArrayNode a = o.putArray("external");
      external.forEach(part -> a.add(part.toJson()));
    }
    return o;
  }

  static Resource fromJson(JsonNode node) {
    Builder b = builder();
    b.memoryBytes = Json.longOrNull(node.path("memoryBytes"));
    b.cpuMillis = Json.longOrNull(node.path("cpuMillis"));
    b.instances = Json.longOrNull(node.path("instances"));
    node.path("custom").fields().forEachRemaining(e -> b.custom.put(e.getKey(), Json.number(e.getValue())));
    node.path("external").forEach(part -> b.external.add(ExternalResource.fromJson(part)));
    return b.build();
  }

  @Override
  public boolean equals(Object o) {
    if (!(o instanceof Resource)) {
      return false;
    }
    Resource r = (Resource) o;
    return Objects.equals(memoryBytes, r.memoryBytes)
        && Objects.equals(cpuMillis, r.cpuMillis)
        && Objects.equals(instances, r.instances)
        && custom.equals(r.custom)
        && external.equals(r.external);
  }

  @Override
  public int hashCode() {
    return Objects.hash(memoryBytes, cpuMillis, instances, custom, external);
  }

  @Override
  public String toString() {
    return toJson().toString();
  }

  /** Builds a resource. Negative or too large quantities are an IllegalArgumentException. */
  public static final class Builder {
    private Long memoryBytes;
    private Long cpuMillis;
    private Long instances;
    private final Map<String, Long> custom = new TreeMap<>();
    private final List<ExternalResource> external = new ArrayList<>();

    private Builder() {}

    /** Memory in bytes. */
    public Builder memoryBytes(long bytes) {
      memoryBytes = quantity("memory_bytes", bytes);
      return this;
    }

    /** CPU in thousandths of a core. */
    public Builder cpuMillis(long millis) {
      cpuMillis = quantity("cpu_millis", millis);
      return this;
    }

    /** Number of engines. */
    public Builder instances(long n) {
      instances = quantity("instances", n);
      return this;
    }

    /** So many of a countable thing. */
    public Builder custom(String name, long n) {
      custom.put(name, quantity("custom[" + name + "]", n));
      return this;
    }

    /** Adds a part outside hosts. */
    public Builder external(ExternalResource part) {
      external.add(Objects.requireNonNull(part));
      return this;
    }

    /** The resource. */
    public Resource build() {
      return new Resource(this);
    }

    private static long quantity(String field, long n) {
      if (n < 0 || n > MAX_QUANTITY) {
        throw new IllegalArgumentException(field + " is " + n + ": use 0 to " + MAX_QUANTITY);
      }
      return n;
    }
  }
}
