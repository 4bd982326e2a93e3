package io.github.bursar.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;

/** A token in a file, which is read again when the file changes. */
final class Token {
  private static final int LARGEST = 16 << 10;

  private final Path file;
  private FileTime readAt; // guarded by this, as the rest
  private long size;
  private Object key;
  private String value;

  Token(Path file) {
    this.file = file;
  }

  /** The token; UNAUTHENTICATED if there is none. Messages never hold it. */
  synchronized String get() {
    try {
      BasicFileAttributes now = Files.readAttributes(file, BasicFileAttributes.class);
      boolean same =
          value != null && now.lastModifiedTime().equals(readAt) && now.size() == size && String.valueOf(now.fileKey()).equals(key);
      if (!same) {
        if (now.size() > LARGEST) {
          throw unusable("it has " + now.size() + " bytes: a token has at most " + LARGEST, null);
        }
        String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8).trim();
        if (text.isEmpty() || !text.chars().allMatch(c -> c > ' ' && c < 0x7f)) {
          throw unusable(text.isEmpty() ? "it is empty" : "it holds more than one word of ASCII", null);
        }
        value = text;
        readAt = now.lastModifiedTime();
        size = now.size();
        key = String.valueOf(now.fileKey());
      }
      return value;
    } catch (IOException e) {
      throw unusable("it cannot be read (" + e.getClass().getSimpleName() + ")", e);
    }
  }

  private BursarException unusable(String why, Throwable cause) {
    return new BursarException(
        BursarException.Code.UNAUTHENTICATED, "token file " + file + ": " + why, cause != null, cause);
  }
}
