package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.bursar.client.BursarException.Code;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** What answers mean, in one place. */
final class Errors {
  private static final int LONGEST_MESSAGE = 2000;

  private Errors() {}

  /** The message of an answer, or its error. */
  static JsonNode result(Transport.Answer answer, String target) {
    JsonNode body = Json.parse(answer.body());
    if (answer.status() == 200) {
      if (body == null || !body.isObject()) {
        throw new BursarException(Code.UNAVAILABLE, target + " answers something that is no Bursar: no JSON object", true, null);
      }
      return body;
    }
    if (body != null && body.path("code").isTextual()) {
      throw decoded(() -> error(body, retryAfter(answer.retryAfter())));
    }
    throw byStatus(answer, target);
  }

  private interface Decoding {
    BursarException get();
  }

  private static BursarException decoded(Decoding d) {
    try {
      return d.get();
    } catch (Json.MalformedAnswer e) {
      return new BursarException(Code.INTERNAL, "the server's error is not understood: " + e.getMessage(), false, e);
    }
  }

  /** A Connect error, as in an answer or at the end of a stream. */
  static BursarException error(JsonNode error, Duration retryAfterHeader) {
    Code code = code(Json.text(error, "code"));
    String message = shown(error, "message");
    Refusal refusal = null;
    List<FieldViolation> fields = new ArrayList<>();
    Duration retryAfter = retryAfterHeader;
    for (JsonNode detail : error.path("details")) {
      JsonNode value = detail.path("debug");
      switch (Json.text(detail, "type")) {
        case "bursar.v1.InsufficientResources":
          refusal = Refusal.fromJson(code, message, value);
          break;
        case "bursar.v1.InvalidField":
          fields.add(new FieldViolation(shown(value, "field"), shown(value, "value"), shown(value, "want")));
          break;
        case "buf.validate.Violations":
          value.path("violations").forEach(v -> fields.add(violation(v)));
          break;
        case "google.rpc.RetryInfo":
          Duration d = Json.duration(value.isTextual() ? value : value.path("retryDelay"));
          retryAfter = d == null ? retryAfter : d;
          break;
        default: // of a newer server
      }
    }
    return new BursarException(code, message.isEmpty() ? code.toString() : message, retriable(code, refusal), refusal, fields, retryAfter, null);
  }

  private static FieldViolation violation(JsonNode v) {
    StringBuilder path = new StringBuilder();
    for (JsonNode e : v.path("field").path("elements")) {
      path.append(path.length() == 0 ? "" : ".").append(Json.text(e, "fieldName"));
      for (String key : new String[] {"index", "stringKey", "intKey", "uintKey", "boolKey"}) {
        if (e.has(key)) {
          path.append('[').append(e.path(key).asText()).append(']');
        }
      }
    }
    return new FieldViolation(Json.shorten(path.toString()), "", shown(v, "message"));
  }

  private static String shown(JsonNode o, String field) {
    return Json.shown(Json.text(o, field), LONGEST_MESSAGE);
  }

  private static boolean retriable(Code code, Refusal refusal) {
    switch (code) {
      case UNAVAILABLE:
      case DEADLINE_EXCEEDED:
      case ABORTED:
        return true;
      case RESOURCE_EXHAUSTED:
        return refusal == null || !refusal.never();
      default:
        return false;
    }
  }

  private static Code code(String text) {
    try {
      return Code.valueOf(text.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException e) {
      return Code.UNKNOWN;
    }
  }

  /** Nobody said what is wrong, as if a proxy or another server answers: Connect's own table. */
  private static BursarException byStatus(Transport.Answer answer, String target) {
    int status = answer.status();
    Code code;
    switch (status) {
      case 400:
        code = Code.INTERNAL;
        break;
      case 401:
        code = Code.UNAUTHENTICATED;
        break;
      case 403:
        code = Code.PERMISSION_DENIED;
        break;
      case 404:
      case 405:
        code = Code.UNIMPLEMENTED;
        break;
      case 429:
      case 502:
      case 503:
      case 504:
        code = Code.UNAVAILABLE;
        break;
      default:
        // A redirect, too: whom it names is not to be trusted with the request.
        code = status >= 300 && status < 400 ? Code.UNIMPLEMENTED : Code.UNKNOWN;
    }
    String message = target + " answers HTTP " + status + " without a reason of Bursar";
    return new BursarException(code, message, retriable(code, null), null, new ArrayList<>(), retryAfter(answer.retryAfter()), null);
  }

  /** Nothing came back. */
  static BursarException unanswered(String target, IOException e) {
    String why = e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage();
    String what = e instanceof Transport.ConnectFailed ? " cannot be reached: " : " did not answer: ";
    return new BursarException(Code.UNAVAILABLE, target + what + Json.shorten(why), true, e);
  }

  private static Duration retryAfter(String header) {
    return header != null && header.matches("[0-9]{1,6}") ? Duration.ofSeconds(Long.parseLong(header)) : null;
  }
}
