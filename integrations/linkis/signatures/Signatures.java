import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Writes down which classes of Linkis the adapter touches, as javap prints them, and makes stubs of
 * them that it can be compiled against. A source file that Java runs as it is:
 *
 * <pre>
 * java Signatures.java touched CLASSES...             the names of Linkis's classes in our class files
 * java Signatures.java make INTO CLASSPATH NAMES      one file a class, and of its superclasses; NAMES is a file
 * java Signatures.java stubs SIGNATURES INTO          Java sources, and placeholders of what they only mention
 * </pre>
 */
final class Signatures {
  private static final String LINKIS = "org.apache.linkis.";
  private static final Pattern MENTIONED = Pattern.compile("org/apache/linkis/[A-Za-z0-9_/]*[A-Za-z0-9_$]");
  private static final Pattern NAME = Pattern.compile("(?<![\\w$.])[a-z]\\w*(?:\\.[a-z]\\w*)*(?:\\.\\w[\\w$]*)+");

  private Signatures() {}

  public static void main(String[] arguments) throws IOException {
    switch (arguments[0]) {
      case "touched":
        touched(arguments).forEach(System.out::println);
        break;
      case "make":
        make(Path.of(arguments[1]), arguments[2], Files.readAllLines(Path.of(arguments[3])));
        break;
      case "stubs":
        new Stubs(read(Path.of(arguments[1]))).write(Path.of(arguments[2]));
        break;
      default:
        throw new IllegalArgumentException(arguments[0] + ": want touched, make or stubs");
    }
  }

  // --- touched -----------------------------------------------------------------------------------

  private static Set<String> touched(String[] arguments) throws IOException {
    Set<String> names = new TreeSet<>();
    for (String folder : Arrays.asList(arguments).subList(1, arguments.length)) {
      try (Stream<Path> files = Files.walk(Path.of(folder))) {
        files.filter(f -> f.toString().endsWith(".class")).forEach(f -> mentions(f, names));
      }
    }
    return names;
  }

  /** Adds the classes of Linkis in a class file's constants: in references, descriptors and signatures. */
  private static void mentions(Path file, Set<String> names) {
    try (DataInputStream in = new DataInputStream(Files.newInputStream(file))) {
      in.skipNBytes(8);
      int constants = in.readUnsignedShort();
      for (int i = 1; i < constants; i++) {
        int tag = in.readUnsignedByte();
        switch (tag) {
          case 1:
            Matcher found = MENTIONED.matcher(in.readUTF());
            while (found.find()) {
              names.add(found.group().replace('/', '.'));
            }
            break;
          case 5, 6: // long and double take two places
            in.skipNBytes(8);
            i++;
            break;
          case 15:
            in.skipNBytes(3);
            break;
          case 7, 8, 16, 19, 20:
            in.skipNBytes(2);
            break;
          default:
            in.skipNBytes(4);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(file.toString(), e);
    }
  }

  // --- make --------------------------------------------------------------------------------------

  private static void make(Path into, String classPath, List<String> names) throws IOException {
    Files.createDirectories(into);
    Set<String> done = new TreeSet<>();
    Set<String> absent = new TreeSet<>();
    for (Set<String> open = new TreeSet<>(names); !open.isEmpty(); ) {
      done.addAll(open);
      absent.addAll(open);
      Set<String> next = new TreeSet<>();
      for (List<String> printed : javap(classPath, open)) {
        Signature signature = new Signature(printed);
        absent.remove(signature.name);
        Files.write(into.resolve(signature.name + ".txt"), printed);
        // What they are made of must be there, too, as type parameters have bounds.
        Matcher parent = NAME.matcher(signature.generics + String.join(" ", signature.supers) + " " + String.join(" ", signature.interfaces));
        while (parent.find()) {
          if (parent.group().startsWith(LINKIS) && !done.contains(parent.group())) {
            next.add(parent.group());
          }
        }
      }
      open = next;
    }
    if (!absent.isEmpty()) {
      System.err.println("LINKIS: not on the class path: " + String.join(" ", absent));
    }
  }

  /** What javap prints of classes, without members that a compiler has made. */
  private static List<List<String>> javap(String classPath, Collection<String> names) {
    List<String> command = new ArrayList<>(List.of("-v", "-protected", "-constants", "-cp", classPath));
    command.addAll(names);
    ByteArrayOutputStream printed = new ByteArrayOutputStream();
    PrintWriter out = new PrintWriter(printed, true, StandardCharsets.UTF_8);
    // Its exit code says that some are absent: the caller finds out which.
    ToolProvider.findFirst("javap").orElseThrow().run(out, new PrintWriter(PrintStream.nullOutputStream()), command.toArray(new String[0]));
    List<List<String>> classes = new ArrayList<>();
    List<String> lines = new ArrayList<>();
    String member = null;
    for (String line : printed.toString(StandardCharsets.UTF_8).lines().toList()) {
      if (line.startsWith("  Compiled from")) {
        lines = new ArrayList<>(List.of(line.trim()));
      } else if (line.matches("[a-z].*(class|interface) .*")) {
        lines.add(line + " {");
      } else if (line.matches("  [a-z<].*;")) {
        member = line;
      } else if (member != null && line.startsWith("    flags:")) {
        if (!line.contains("ACC_SYNTHETIC") && !line.contains("ACC_PRIVATE") && !member.trim().startsWith("static {}")) {
          lines.add(member);
        }
        member = null;
      } else if (line.equals("}")) {
        lines.add(line);
        classes.add(lines);
      }
    }
    return classes;
  }

  // --- signatures --------------------------------------------------------------------------------

  private static Map<String, Signature> read(Path folder) throws IOException {
    Map<String, Signature> read = new TreeMap<>();
    try (Stream<Path> files = Files.list(folder)) {
      for (Path file : files.filter(f -> f.toString().endsWith(".txt")).sorted().toList()) {
        Signature signature = new Signature(Files.readAllLines(file));
        read.put(signature.name, signature);
      }
    }
    return read;
  }

  /** A class as javap prints it. */
  private static final class Signature {
    private static final Pattern HEADER = Pattern.compile("(.*?)(class|interface) ([\\w.$]+)(.*) \\{");
    final String name;
    final String modifiers;
    final String kind; // class, interface, enum, @interface
    final String generics; // of the class itself, with the brackets
    final List<String> supers; // of extends
    final List<String> interfaces; // of implements
    final List<String> members;

    Signature(List<String> lines) {
      int at = 0;
      while (!lines.get(at).endsWith("{")) {
        at++;
      }
      Matcher header = HEADER.matcher(lines.get(at));
      if (!header.matches()) {
        throw new IllegalArgumentException("not as javap prints a class: " + lines.get(at));
      }
      name = header.group(3);
      String rest = header.group(4);
      int end = rest.startsWith("<") ? closing(rest) + 1 : 0;
      generics = rest.substring(0, end);
      List<String> extended = new ArrayList<>();
      List<String> implemented = new ArrayList<>();
      List<String> current = extended;
      for (String word : split(rest.substring(end).trim())) {
        if (word.startsWith("extends ")) {
          current.add(word.substring("extends ".length()));
        } else if (word.startsWith("implements ")) {
          current = implemented;
          current.add(word.substring("implements ".length()));
        } else {
          current.add(word);
        }
      }
      boolean isEnum = extended.stream().anyMatch(s -> s.startsWith("java.lang.Enum<"));
      boolean isAnnotation = extended.contains("java.lang.annotation.Annotation");
      kind = isEnum ? "enum" : isAnnotation ? "@interface" : header.group(2);
      modifiers = isEnum ? "public " : header.group(1);
      supers = isEnum || isAnnotation ? List.of() : extended;
      interfaces = implemented;
      members = lines.subList(at + 1, lines.size() - 1).stream().map(String::trim).toList();
    }

    /** Without their type arguments. */
    List<String> parents() {
      return Stream.concat(supers.stream(), interfaces.stream()).map(p -> p.replaceAll("<.*", "")).toList();
    }

    private static int closing(String text) {
      int depth = 0;
      for (int i = 0; i < text.length(); i++) {
        depth += text.charAt(i) == '<' ? 1 : text.charAt(i) == '>' ? -1 : 0;
        if (depth == 0) {
          return i;
        }
      }
      throw new IllegalArgumentException(text);
    }
  }

  /** Splits at commas, and before " implements ", outside of brackets. */
  private static List<String> split(String text) {
    List<String> parts = new ArrayList<>();
    int depth = 0;
    int from = 0;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      depth += c == '<' ? 1 : c == '>' ? -1 : 0;
      boolean comma = c == ',' && depth == 0;
      if (comma || depth == 0 && text.startsWith(" implements ", i)) {
        parts.add(text.substring(from, i).trim());
        from = i + 1;
      }
    }
    parts.add(text.substring(from).trim());
    parts.removeIf(String::isEmpty);
    return parts;
  }

  // --- stubs -------------------------------------------------------------------------------------

  private static final class Stubs {
    private static final String MARKER = "org.apache.linkis.BursarStub";
    private static final String BODY = " { throw new UnsupportedOperationException(\"a stub of Linkis has no behaviour\"); }";
    private static final Pattern METHOD =
        Pattern.compile("((?:(?:public|protected|abstract|static|final|default|synchronized|native|strictfp|transient|volatile) )*)(<.*?> (?=[^(]*\\())?(.*?)\\((.*)\\)( throws .*)?;");
    private final Map<String, Signature> known;
    private final Map<String, Integer> placeholders = new TreeMap<>(); // with the number of their type arguments
    private final Set<String> placeholderClasses = new TreeSet<>();
    private final Set<String> placeholderErrors = new TreeSet<>();

    Stubs(Map<String, Signature> known) {
      this.known = known;
    }

    void write(Path into) throws IOException {
      source(into, MARKER, "public final class BursarStub { private BursarStub() {} }");
      for (Signature signature : known.values()) {
        if (outer(signature.name) == null) {
          source(into, signature.name, render(signature, simple(signature.name), ""));
        }
      }
      for (Map.Entry<String, Integer> each : placeholders.entrySet()) {
        source(into, each.getKey(), placeholder(each.getKey(), each.getValue()));
      }
    }

    private String placeholder(String name, int arity) {
      String generics = arity == 0 ? "" : Stream.iterate(0, i -> i + 1).limit(arity).map(i -> "T" + i).collect(Collectors.joining(", ", "<", ">"));
      if (placeholderErrors.contains(name)) {
        return "public class " + simple(name) + " extends RuntimeException {}";
      }
      String kind = placeholderClasses.contains(name) ? "class " : "interface ";
      return "public " + kind + simple(name) + generics + " {}";
    }

    private static void source(Path into, String name, String text) throws IOException {
      Path file = into.resolve(name.replace('.', '/') + ".java");
      Files.createDirectories(file.getParent());
      Files.writeString(file, "package " + name.substring(0, name.lastIndexOf('.')) + ";\n\n" + text + "\n");
    }

    private static String simple(String name) {
      return name.substring(name.lastIndexOf('.') + 1);
    }

    /** The class that a nested one is in, if both are known. */
    private String outer(String name) {
      int dollar = name.lastIndexOf('$');
      String outer = dollar < 0 || dollar == name.length() - 1 ? null : name.substring(0, dollar);
      return outer != null && known.containsKey(outer) ? outer : null;
    }

    private String render(Signature s, String simple, String prefix) {
      StringBuilder out = new StringBuilder();
      if (s.kind.equals("@interface")) {
        out.append("@java.lang.annotation.Retention(java.lang.annotation.RetentionPolicy.RUNTIME)\n");
      }
      String modifiers = s.kind.contains("interface") ? s.modifiers.replace("abstract ", "") : s.modifiers;
      out.append(prefix).append(modifiers).append(s.kind).append(' ').append(simple).append(types(s.generics));
      s.parents().forEach(this::types); // the raw ones, too, become placeholders
      if (!s.supers.isEmpty()) {
        if (s.kind.equals("class")) {
          placeholderClasses.addAll(s.parents().subList(0, 1));
        }
        out.append(" extends ").append(s.supers.stream().map(this::types).collect(Collectors.joining(", ")));
      }
      if (!s.interfaces.isEmpty()) {
        out.append(" implements ").append(s.interfaces.stream().map(this::types).collect(Collectors.joining(", ")));
      }
      out.append(" {\n");
      if (s.kind.equals("enum")) {
        out.append("  ").append(constants(s).stream().collect(Collectors.joining(", "))).append(";\n");
      }
      if (s.kind.equals("class")) {
        boolean isOurs = !s.supers.isEmpty() && s.supers.get(0).startsWith(LINKIS) && known.containsKey(s.parents().get(0));
        out.append("  public ").append(simple).append('(').append(MARKER).append(" s) { ").append(isOurs ? "super(s);" : "").append(" }\n");
      }
      for (String member : s.members) {
        String rendered = member.contains("(") ? method(s, simple, member) : field(s, member);
        if (rendered != null) {
          out.append("  ").append(rendered).append('\n');
        }
      }
      for (Signature nested : known.values()) {
        if (s.name.equals(outer(nested.name))) {
          out.append(render(nested, nested.name.substring(s.name.length() + 1), nested.kind.equals("class") ? "static " : "")).append('\n');
        }
      }
      return out.append('}').toString();
    }

    private static List<String> constants(Signature s) {
      return s.members.stream()
          .filter(m -> !m.contains("(") && m.startsWith("public static final " + s.name + " "))
          .map(m -> m.substring(m.lastIndexOf(' ') + 1, m.length() - 1))
          .toList();
    }

    private String field(Signature s, String member) {
      if (s.kind.equals("enum") && constants(s).contains(member.substring(member.lastIndexOf(' ') + 1, member.length() - 1))) {
        return null;
      }
      if (member.contains(" = ")) {
        String value = member.substring(member.indexOf(" = ") + 3, member.length() - 1);
        return types(member.substring(0, member.indexOf(" = "))) + " = " + value + ";";
      }
      if (!member.contains("final ")) {
        return types(member);
      }
      // not a constant that the compiler copies
      String type = member.replaceAll("(public|protected|static|final|volatile|transient) ", "").replaceAll(" [^ ]*;$", "");
      return types(member.substring(0, member.length() - 1)) + " = " + zero(types(type), true) + ";";
    }

    private static String zero(String type, boolean isField) {
      return switch (type) {
        case "boolean" -> isField ? "Boolean.parseBoolean(\"\")" : "false";
        case "long", "int", "short", "byte", "char", "float", "double" -> "(" + type + ") " + (isField ? "\"\".length()" : "0");
        default -> "null";
      };
    }

    private String method(Signature s, String simple, String member) {
      Matcher m = METHOD.matcher(member);
      if (!m.matches()) {
        throw new IllegalArgumentException(s.name + ": not as javap prints a method: " + member);
      }
      String modifiers = m.group(1).replace("native ", "").replace("synchronized ", "").replace("strictfp ", "");
      boolean isConstructor = m.group(3).equals(s.name);
      String name = isConstructor ? simple : m.group(3).substring(m.group(3).lastIndexOf(' ') + 1);
      if (javax.lang.model.SourceVersion.isKeyword(name)
          || s.kind.equals("enum") && (isConstructor || name.equals("values") || name.equals("valueOf"))) {
        return null;
      }
      List<String> parameters = new ArrayList<>();
      for (String type : split(m.group(4))) {
        parameters.add(types(type) + " p" + parameters.size());
      }
      String thrown = m.group(5) == null ? "" : m.group(5);
      split(thrown.replace("throws ", "")).forEach(e -> errors(e.trim()));
      String head =
          modifiers + (m.group(2) == null ? "" : types(m.group(2)))
              + (isConstructor ? name : types(m.group(3).substring(0, m.group(3).length() - name.length())) + name)
              + "(" + String.join(", ", parameters) + ")" + types(thrown);
      if (s.kind.equals("@interface")) {
        String type = m.group(3).substring(0, m.group(3).lastIndexOf(' ')).trim();
        String value = type.endsWith("[]") ? "{}" : type.startsWith("java.lang.Class") ? "Object.class" : type.equals("java.lang.String") ? "\"\"" : zero(type, false);
        return head.replace("abstract ", "") + (value.equals("null") ? ";" : " default " + value + ";");
      }
      if (modifiers.contains("abstract ")) {
        return head + ";";
      }
      if (isConstructor) {
        boolean isOurs = !s.supers.isEmpty() && known.containsKey(s.parents().get(0));
        return head + " { " + (isOurs ? "super((" + MARKER + ") null); " : "") + "}";
      }
      return head + BODY;
    }

    private void errors(String name) {
      if (!name.isEmpty() && !known.containsKey(name) && !name.startsWith("java.")) {
        placeholderErrors.add(name);
      }
    }

    /** Java's spelling of types, with a placeholder for each that nobody knows. */
    private String types(String text) {
      Matcher found = NAME.matcher(text);
      StringBuilder out = new StringBuilder();
      while (found.find()) {
        String name = found.group();
        String java = name;
        for (String outer = known.containsKey(name) ? outer(name) : null; outer != null; outer = outer(outer)) {
          java = outer + "." + java.substring(outer.length() + 1);
        }
        if (!known.containsKey(name) && !name.startsWith("java.")) {
          placeholders.merge(name, arity(text, found.end()), Math::max);
        }
        found.appendReplacement(out, Matcher.quoteReplacement(java));
      }
      return found.appendTail(out).toString();
    }

    private static int arity(String text, int at) {
      if (at >= text.length() || text.charAt(at) != '<') {
        return 0;
      }
      int end = at + Signature.closing(text.substring(at));
      return split(text.substring(at + 1, end)).size();
    }
  }
}
