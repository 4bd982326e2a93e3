package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.regex.Pattern;

/** Protobuf's JSON: 64-bit numbers are strings, durations "1.5s", times RFC 3339. */
final class Json {
  private static final int LONGEST_NUMBER = 40;
  private static final int DEEPEST = 64;
  private static final int MOST_VALUES = 2_000_000;
  // Also what turns the direction of writing, and what ends a line elsewhere.
  private static final Pattern UNSHOWN = Pattern.compile("[\\p{Cc}\\p{Cf}\\u2028\\u2029]");
  private static final ObjectMapper reader = new ObjectMapper();

  private Json() {}

  static ObjectNode object() {
    return JsonNodeFactory.instance.objectNode();
  }

  static OptionalLong optional(Long n) {
    return n == null ? OptionalLong.empty() : OptionalLong.of(n);
  }

  static void putLong(ObjectNode o, String field, Long n) {
    if (n != null) {
      o.put(field, Long.toString(n));
    }
  }

  static void putText(ObjectNode o, String field, String text) {
    if (text != null && !text.isEmpty()) {
      o.put(field, text);
    }
  }

  static void putDuration(ObjectNode o, String field, Duration d) {
    if (d != null) {
      o.put(field, BigDecimal.valueOf(d.getSeconds()).add(BigDecimal.valueOf(d.getNano(), 9)).stripTrailingZeros().toPlainString() + "s");
    }
  }

  static void putLabels(ObjectNode o, String field, Map<String, String> labels) {
    if (!labels.isEmpty()) {
      ObjectNode l = o.putObject(field);
      labels.forEach(l::put);
    }
  }

  static String text(JsonNode o, String field) {
    return o.path(field).asText("");
  }

  /** A number that is there, as a string or as a number. */
  static long number(JsonNode n) {
    if (n.canConvertToLong() && n.isIntegralNumber()) {
      return n.longValue();
    }
    String text = n.asText();
    if (text.length() > 40) { // no number of 64 bits, and one of a million digits takes long to read
      throw new MalformedAnswer("no 64-bit number: " + shorten(text));
    }
    try {
      return new BigDecimal(text).longValueExact();
    } catch (NumberFormatException | ArithmeticException e) {
      throw new MalformedAnswer("no 64-bit number: " + shorten(n.toString()));
    }
  }

  static Long longOrNull(JsonNode n) {
    return n.isMissingNode() || n.isNull() ? null : number(n);
  }

  static long longOr0(JsonNode o, String field) {
    Long n = longOrNull(o.path(field));
    return n == null ? 0 : n;
  }

  static Instant time(JsonNode o, String field) {
    String text = text(o, field);
    if (text.isEmpty()) {
      return null;
    }
    try {
      return Instant.parse(text);
    } catch (DateTimeParseException e) {
      throw new MalformedAnswer("no time: " + shorten(text));
    }
  }

  /** A duration such as "3.5s"; null if there is none, or what is there is no duration. */
  static Duration duration(JsonNode n) {
    String text = n.asText("");
    if (!text.endsWith("s") || text.length() > 40) {
      return null;
    }
    try {
      BigDecimal seconds = new BigDecimal(text.substring(0, text.length() - 1));
      if (seconds.abs().compareTo(BigDecimal.valueOf(Integer.MAX_VALUE)) > 0) {
        return null;
      }
      return Duration.ofNanos(seconds.movePointRight(9).longValue());
    } catch (NumberFormatException e) {
      return null;
    }
  }

  static Map<String, String> labels(JsonNode n) {
    Map<String, String> m = new LinkedHashMap<>();
    n.fields().forEachRemaining(e -> m.put(e.getKey(), e.getValue().asText()));
    return Collections.unmodifiableMap(m);
  }

  static List<String> texts(JsonNode n) {
    List<String> l = new ArrayList<>();
    n.forEach(e -> l.add(e.asText()));
    return Collections.unmodifiableList(l);
  }

  static <E extends Enum<E>> E constant(Class<E> type, String prefix, String text, E other) {
    if (text.startsWith(prefix)) {
      try {
        return Enum.valueOf(type, text.substring(prefix.length()));
      } catch (IllegalArgumentException e) {
        return other; // a newer server has more of them
      }
    }
    return other;
  }

  /**
   * An answer as a tree; null: it is none, or one that only keeps its reader busy. Numbers and
   * nesting are bounded before there is a tree: a number of a million digits takes very long to
   * read, and a tree needs many times the bytes of its text.
   */
  static JsonNode parse(byte[] text) {
    try {
      return bounded(text) ? reader.readTree(text) : null;
    } catch (IOException e) {
      return null;
    }
  }

  private static boolean bounded(byte[] text) {
    int depth = 0;
    int digits = 0;
    int values = 0;
    boolean quoted = false;
    for (int i = 0; i < text.length; i++) {
      byte c = text[i];
      if (c == 0) { // not UTF-8
        return false;
      }
      if (quoted) {
        if (c == '\\') {
          i++;
        } else if (c == '"') {
          quoted = false;
        }
        continue;
      }
      digits = c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+' ? digits + 1 : 0;
      switch (c) {
        case '"':
          quoted = true;
          break;
        case '{':
        case '[':
          depth++;
          values++;
          break;
        case '}':
        case ']':
          depth--;
          break;
        case ',':
          values++;
          break;
        default:
      }
      if (digits > LONGEST_NUMBER || depth > DEEPEST || values > MOST_VALUES) {
        return false;
      }
    }
    return true;
  }

  static String shorten(String text) {
    return shown(text, 200);
  }

  /** A text of a server for an error or a log: one line, no control characters, and not endless. */
  static String shown(String text, int most) {
    String cut = text.length() <= most ? text : text.substring(0, most) + "…";
    return UNSHOWN.matcher(cut).replaceAll("?");
  }

  /** An answer that is JSON, and not what it should be. */
  static final class MalformedAnswer extends RuntimeException {
    private static final long serialVersionUID = 1;

    MalformedAnswer(String message) {
      super(message);
    }
  }
}
