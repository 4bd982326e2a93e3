package io.github.bursar.linkis.ecm;

/**
 * Bounds of an answer's JSON that are checked before it is parsed: a tree of it takes many times
 * the memory of its text, and a number with many digits takes minutes.
 */
final class AnswerBounds {
  private static final int MAX_DEPTH = 64;
  private static final int MAX_NUMBER = 64;

  /** Of objects, lists and their members. A page of allocations has a few thousand. */
  private static final int MAX_PARTS = 200_000;

  private AnswerBounds() {}

  /** Whether a text is within them. It need not be JSON. */
  static boolean hold(String text) {
    int depth = 0;
    int number = 0;
    int parts = 0;
    boolean quoted = false;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (quoted) {
        if (c == '\\') {
          i++;
        } else if (c == '"') {
          quoted = false;
        }
        continue;
      }
      number = c >= '0' && c <= '9' ? number + 1 : 0;
      if (c == '"') {
        quoted = true;
      } else if (c == '{' || c == '[') {
        depth++;
        parts++;
      } else if (c == '}' || c == ']') {
        depth--;
      } else if (c == ',') {
        parts++;
      }
      if (depth > MAX_DEPTH || number > MAX_NUMBER || parts > MAX_PARTS) {
        return false;
      }
    }
    return true;
  }
}
