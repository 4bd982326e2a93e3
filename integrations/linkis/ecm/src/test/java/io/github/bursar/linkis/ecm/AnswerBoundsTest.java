package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class AnswerBoundsTest {
  private static String many(int n, String part) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < n; i++) {
      text.append(part);
    }
    return text.toString();
  }

  @Test
  void whatATreeOrANumberWouldTakeTooLongForIsNotParsed() {
    for (String text : Arrays.asList("{\"pid\": " + many(1 << 20, "9") + "}", many(1 << 20, "["), "[" + many(1_000_000, "{},") + "{}]")) {
      assertFalse(AnswerBounds.hold(text), text.substring(0, 20));
    }
  }

  @Test
  void aPageOfAllocationsIs() {
    String quoted = "{\"id\":\"" + many(100, "9") + "\\\"[[[" + many(100, "[") + "\",\"pid\":1234567890123456789,\"x\":1.5e-9},";
    assertTrue(AnswerBounds.hold("{\"allocations\":[" + many(500, quoted) + "{}]}"));
  }
}
